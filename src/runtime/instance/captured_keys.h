// SPDX-License-Identifier: Apache-2.0
// Which graphs an Executable has captured, by the hash of what tells them apart: sizes, and where the parameters are. What
// capture_limit counts, and what the process counts under the names of Ascend's documents ("captured_<graph>").
//
// Not thread-safe: the Executable holds its lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>

namespace npugraph::runtime {

class CapturedKeys {
 public:
  // `name` of the graph; empty: the process does not count by name.
  CapturedKeys(std::string name, std::optional<int64_t> limit) : name_(std::move(name)), limit_(limit) {}

  // Whether the key is there, or may still be added.
  bool has_room_for(size_t key) const;
  void add(size_t key);
  // A graph too many: none is kept from here on.
  void exhaust();
  bool exhausted() const { return exhausted_; }
  int64_t count() const { return count_; }

  // Counts "recapture_due_to_<reason>_<graph>".
  void count_recapture(const char* reason) const;

 private:
  void count_captured(int64_t more);

  const std::string name_;
  const std::optional<int64_t> limit_;
  std::unordered_set<size_t> keys_;  // without a limit, some of the last ones
  int64_t count_ = 0;
  bool exhausted_ = false;
};

}  // namespace npugraph::runtime
