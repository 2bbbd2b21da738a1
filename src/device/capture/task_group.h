// SPDX-License-Identifier: Apache-2.0
// A part of a captured graph that can be replaced. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "device/capture/segment.h"

namespace npugraph::capture {

class TaskGroup {
 public:
  // Sets what replays run from now on; null for nothing.
  void replace(std::shared_ptr<Segment> segment) {
    const std::lock_guard lock(mutex_);
    is_captured_ = true;
    segment_ = std::move(segment);
  }
  // Called when the graph is destroyed or reset.
  void drop() {
    const std::lock_guard lock(mutex_);
    is_captured_ = false;
    segment_ = nullptr;
  }
  bool is_captured() const {
    const std::lock_guard lock(mutex_);
    return is_captured_;
  }
  std::shared_ptr<Segment> segment() const {
    const std::lock_guard lock(mutex_);
    return segment_;
  }

 private:
  mutable std::mutex mutex_;
  bool is_captured_ = false;  // the capture has ended
  std::shared_ptr<Segment> segment_;
};

}  // namespace npugraph::capture
