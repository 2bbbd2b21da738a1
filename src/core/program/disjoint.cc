// SPDX-License-Identifier: Apache-2.0
#include "program/disjoint.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace npugraph::program {
namespace {

// Strides in bytes, the largest first, each once; the last one is a single byte.
using Strides = std::vector<int64_t>;

// Adds those of the dimensions of more than one element. Returns false if one is not known or not positive.
bool add_strides(const Operand& window, Strides& strides) {
  for (size_t d = 0; d < window.sizes.size(); ++d) {
    if (window.sizes[d] == Dim{1}) continue;
    if (!window.strides[d].is_constant() || window.strides[d].constant <= 0) return false;
    strides.push_back(window.strides[d].constant * size_of(window.dtype));
  }
  return true;
}

// The places of a window along one stride: [first, first + count), without an end if the count is not known.
struct Range {
  int64_t first = 0;
  std::optional<int64_t> count = 1;

  bool is_before(const Range& other) const { return count && first + *count <= other.first; }
};

// The window as a box in an array with these strides, each of which is at least as long as what lies inside of it.
// nullopt if it is no such box.
std::optional<std::vector<Range>> box_of(const Operand& window, const Strides& strides) {
  if (!window.byte_offset.is_constant() || window.byte_offset.constant < 0) return {};
  std::vector<Range> box(strides.size());
  int64_t offset = window.byte_offset.constant;
  for (size_t i = 0; i < strides.size(); ++i) {
    box[i].first = offset / strides[i];
    offset %= strides[i];
  }
  box.back().count = size_of(window.dtype);
  for (size_t d = 0; d < window.sizes.size(); ++d) {
    if (window.sizes[d] == Dim{1}) continue;
    const auto at = std::ranges::find(strides, window.strides[d].constant * size_of(window.dtype));
    Range& range = box[at - strides.begin()];
    if (range.count != 1) return {};  // two dimensions of one stride
    range.count = window.sizes[d].is_constant() ? std::optional(window.sizes[d].constant) : std::nullopt;
  }
  for (size_t i = 1; i < box.size(); ++i) {
    if (!box[i].count || (box[i].first + *box[i].count) * strides[i] > strides[i - 1]) return {};
  }
  return box;
}

// The first byte of the window and the one behind its last byte; nullopt if they are not known.
std::optional<std::pair<int64_t, int64_t>> span_of(const Operand& window) {
  if (!window.byte_offset.is_constant()) return {};
  const int64_t first = window.byte_offset.constant;
  int64_t last = first;
  for (size_t d = 0; d < window.sizes.size(); ++d) {
    if (window.sizes[d] == Dim{1}) continue;
    if (!window.sizes[d].is_constant() || !window.strides[d].is_constant()) return {};
    last += (window.sizes[d].constant - 1) * window.strides[d].constant * size_of(window.dtype);
  }
  return {{first, last + size_of(window.dtype)}};
}

}  // namespace

bool are_disjoint(const Operand& a, const Operand& b) {
  if (a.buffer != b.buffer) return true;
  const auto span_a = span_of(a), span_b = span_of(b);
  if (span_a && span_b && (span_a->second <= span_b->first || span_b->second <= span_a->first)) return true;
  Strides strides = {1};
  if (!add_strides(a, strides) || !add_strides(b, strides)) return false;
  std::ranges::sort(strides, std::greater());
  strides.erase(std::unique(strides.begin(), strides.end()), strides.end());
  const auto first = box_of(a, strides), second = box_of(b, strides);
  if (!first || !second) return false;
  for (size_t i = 0; i < strides.size(); ++i) {
    if ((*first)[i].is_before((*second)[i]) || (*second)[i].is_before((*first)[i])) return true;
  }
  return false;
}

}  // namespace npugraph::program
