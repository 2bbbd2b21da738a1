// SPDX-License-Identifier: Apache-2.0
// The graphs that an Executable has captured, each as a hash of its sizes and of the addresses of its parameters.
// capture_limit limits their number, and the process counts them under the names of Ascend's documents
// ("captured_<graph>").
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
  // `name` is the name of the graph; if it is empty, the process does not count by name.
  CapturedKeys(std::string name, std::optional<int64_t> limit) : name_(std::move(name)), limit_(limit) {}

  // Whether the key is there, or may still be added.
  bool has_room_for(size_t key) const;
  void add(size_t key);
  // Called if there is one graph too many: no graph is kept from here on.
  void exhaust();
  bool exhausted() const { return exhausted_; }
  int64_t count() const { return count_; }

  // Counts "recapture_due_to_<reason>_<graph>".
  void count_recapture(const char* reason) const;

 private:
  void count_captured(int64_t more);

  const std::string name_;
  const std::optional<int64_t> limit_;
  std::unordered_set<size_t> keys_;  // without a limit, only some of the latest ones
  int64_t count_ = 0;
  bool exhausted_ = false;
};

}  // namespace npugraph::runtime
