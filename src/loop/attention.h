// SPDX-License-Identifier: Apache-2.0
// What a generated attention computes beside what its operands say, and its text form:
//
//   npugraph.attention 1 after 0 before 127 at given mask nan logsumexp scale 0.125
//
// Each of the words may be missing, with its number. Query head h of H reads head h / (H / heads of the keys) of keys and
// values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace npugraph::loop {

// Where among the keys the first query stands.
enum class AttentionPosition : uint8_t {
  kStart,  // at the first one
  kEnd,    // so that the last query stands at the last key
  kGiven,  // an integer in memory says it
};

struct Attention {
  // A query at position p sees the keys from p - before to p + after; without a number there is no such limit.
  std::optional<int64_t> before;
  std::optional<int64_t> after;
  AttentionPosition position = AttentionPosition::kStart;
  bool mask = false;            // a tensor: floats are added to the scores, booleans say which keys are seen
  bool empty_is_nan = false;    // what a query gives that sees none of the keys; else zeros
  bool logsumexp = false;       // of the scores of each query, is a result too
  std::optional<double> scale;  // of the products of queries and keys; none: 1 / sqrt(size of a head)

  bool operator==(const Attention&) const = default;
};

// Numbers of `before` and `after`: at most so large.
inline constexpr int64_t kMostKeys = int64_t{1} << 40;

// What is printed parses to an equal value.
std::string print(const Attention& attention);

// UserError with the source on any other text.
Attention parse_attention(std::string_view text, std::string_view source);

}  // namespace npugraph::loop
