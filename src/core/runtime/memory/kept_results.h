// SPDX-License-Identifier: Apache-2.0
// Results that belong to the graph: they stay where they are, and the next run overwrites them (option
// clone_output=False).
//
// Not thread-safe: belongs to one call at a time.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "runtime/host.h"

namespace npugraph::runtime {

class KeptResults {
 public:
  explicit KeptResults(Host& host) : host_(host) {}
  ~KeptResults();
  KeptResults(const KeptResults&) = delete;
  KeptResults& operator=(const KeptResults&) = delete;

  // The object of a buffer, with one more reference, which the caller owns. It is the object of the previous call
  // unless that is too small or has lost its memory.
  void* take(int32_t buffer, int64_t bytes, void** data);

 private:
  Host& host_;
  std::unordered_map<int32_t, void*> objects_;  // by buffer, each with a reference
};

}  // namespace npugraph::runtime
