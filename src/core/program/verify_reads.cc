// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "program/verifier.h"

namespace npugraph::program {
namespace {

// More runs than this are not looked at: the window is taken as written, or as right to be read.
constexpr size_t kMostRuns = 1024;

bool is_empty(const Operand& window) {
  return std::ranges::any_of(window.sizes, [](const Dim& size) { return size == Dim{0}; });
}

// A range of bytes, [first, end).
struct Run {
  int64_t first = 0;
  int64_t end = 0;
};

// The bytes of a window that has elements and lies in its buffer; nullopt if they are not known, or in too many runs.
std::optional<std::vector<Run>> runs_of(const Operand& window) {
  if (!window.byte_offset.is_constant()) return {};
  std::vector<std::pair<int64_t, int64_t>> steps;  // bytes from element to element, and how many elements
  for (size_t d = 0; d < window.sizes.size(); ++d) {
    if (window.sizes[d] == Dim{1} || window.strides[d] == Dim{0}) continue;
    if (!window.sizes[d].is_constant() || !window.strides[d].is_constant()) return {};
    steps.emplace_back(window.strides[d].constant * size_of(window.dtype), window.sizes[d].constant);
  }
  std::ranges::sort(steps);
  int64_t length = size_of(window.dtype);
  std::vector<int64_t> starts = {window.byte_offset.constant};
  for (const auto& [step, count] : steps) {
    if (starts.size() == 1 && step == length) {
      length *= count;
      continue;
    }
    if (static_cast<size_t>(count) > kMostRuns / starts.size()) return {};
    const size_t inner = starts.size();
    for (int64_t i = 1; i < count; ++i)
      for (size_t k = 0; k < inner; ++k) starts.push_back(starts[k] + i * step);
  }
  std::vector<Run> runs;
  for (const int64_t start : starts) runs.push_back({start, start + length});
  return runs;
}

// What has been written of one buffer.
class Content {
 public:
  void add(const Operand& window) {
    any_ = true;
    if (all_ || is_empty(window)) return;
    const auto runs = runs_of(window);
    all_ = !runs;
    for (const Run& run : runs.value_or(std::vector<Run>())) add(run);
  }

  // The first run of the window that has not been written as a whole.
  std::optional<Run> missing(const Operand& window) const {
    if (all_) return {};
    if (!any_) return Run{};
    const auto runs = runs_of(window);
    if (!runs) return {};
    const auto found = std::ranges::find_if(*runs, [&](const Run& run) { return !has(run); });
    return found == runs->end() ? std::nullopt : std::optional(*found);
  }

 private:
  void add(Run run) {
    auto next = written_.upper_bound(run.first);
    if (next != written_.begin() && std::prev(next)->second >= run.first) {
      --next;
      run.first = next->first;
    }
    while (next != written_.end() && next->first <= run.end) {
      run.end = std::max(run.end, next->second);
      next = written_.erase(next);
    }
    written_.emplace(run.first, run.end);
  }

  bool has(const Run& run) const {
    const auto next = written_.upper_bound(run.first);
    return next != written_.begin() && std::prev(next)->second >= run.end;
  }

  bool any_ = false;
  bool all_ = false;                    // or too much to be known
  std::map<int64_t, int64_t> written_;  // runs that do not touch each other: first byte -> end
};

class ReadVerifier : Verifier {
 public:
  explicit ReadVerifier(const Program& program) : Verifier(program), contents_(program.buffers.size()) {}

  void check() {
    for (int32_t t = 0; t < count(program_.tasks); ++t) {
      at("task", t);
      const std::vector<Operand>& operands = program_.tasks[t].operands;
      for (const Operand& operand : operands) {
        if (operand.access == Access::kWrite) contents_[operand.buffer].add(operand);
      }
      for (const Operand& operand : operands) {
        if (operand.access != Access::kWrite) check_read(operand);
      }
    }
    for (int32_t i = 0; i < count(program_.outputs); ++i) {
      at("output", i);
      if (program_.outputs[i].kind == Output::Kind::kTensor) check_read(program_.outputs[i].tensor);
    }
  }

 private:
  void check_read(const Operand& window) const {
    const Buffer& buffer = program_.buffers[window.buffer];
    const bool placed = buffer.cls == BufferClass::kArena || buffer.cls == BufferClass::kOutput || buffer.preallocated;
    if (!placed || buffer.opaque || is_empty(window)) return;
    const auto run = contents_[window.buffer].missing(window);
    if (!run) return;
    if (run->end == 0) fail("reads buffer ", window.buffer, ", which no task has written");
    fail("reads the bytes from ", run->first, " to ", run->end, " of buffer ", window.buffer,
         ", not all of which a task has written");
  }

  std::vector<Content> contents_;  // per buffer
};

}  // namespace

void verify_reads(const Program& program) { ReadVerifier(program).check(); }

}  // namespace npugraph::program
