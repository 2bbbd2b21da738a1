// SPDX-License-Identifier: Apache-2.0
// The registry behind pools(): every memory pool of the process reports its size here. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/ledger.h"

namespace npugraph::runtime {

class PoolRecord {
 public:
  PoolRecord(std::string name, std::string owner);  // the first event is "lease"
  ~PoolRecord();
  PoolRecord(const PoolRecord&) = delete;
  PoolRecord& operator=(const PoolRecord&) = delete;

  // The pool now holds `bytes`, because of `what` (PoolEvent::what).
  void report(const char* what, int64_t bytes);

 private:
  friend std::vector<PoolInfo> pools();
  PoolInfo info_;
};

}  // namespace npugraph::runtime
