// SPDX-License-Identifier: Apache-2.0
// Which operator the calling thread is running, for counting allocations. Costs one relaxed load while nobody counts.
// Thread-safe.
#pragma once

#include <atomic>
#include <string>

#include "backend/own_kernels/export.h"

namespace npugraph::bridge {

class NPUGRAPH_EXPORT TaskScope {
 public:
  explicit TaskScope(const std::string& name) {
    if (tracked_.load(std::memory_order_relaxed)) [[unlikely]]
      enter(name);
  }
  ~TaskScope() {
    if (entered_) [[unlikely]]
      leave();
  }
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;

  static void set_tracked(bool on) { tracked_.store(on, std::memory_order_relaxed); }
  // The innermost operator of the calling thread that began while tracking was on, or null.
  static const std::string* current();

 private:
  void enter(const std::string& name);
  void leave();

  static inline std::atomic<bool> tracked_{false};
  const std::string* outer_ = nullptr;
  bool entered_ = false;
};

}  // namespace npugraph::bridge
