// SPDX-License-Identifier: Apache-2.0
// The registry behind pools(): every memory pool of the process reports its size here. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/watch/ledger.h"

namespace npugraph::runtime {

class PoolRecord {
 public:
  PoolRecord(std::string name, std::string owner);  // the first event is "lease"
  ~PoolRecord();
  PoolRecord(const PoolRecord&) = delete;
  PoolRecord& operator=(const PoolRecord&) = delete;

  // The pool now holds `bytes` because of `what` (PoolEvent::what), which must outlive the record. Cheap enough to
  // be called in every run.
  void report(const char* what, int64_t bytes);
  // Does nothing if it is an owner already.
  void add_owner(const std::string& owner);

 private:
  friend std::vector<PoolInfo> pools();
  static constexpr size_t kHistory = 256;  // see PoolInfo::history

  struct Event {
    int64_t ns;
    const char* what;
    int64_t bytes;
  };
  void add(const char* what, int64_t bytes);
  PoolInfo info() const;

  const std::string name_;
  std::vector<std::string> owners_;
  int64_t peak_bytes_ = 0;
  std::array<Event, kHistory> events_;  // a ring
  size_t event_count_ = 0;              // number of events so far
};

}  // namespace npugraph::runtime
