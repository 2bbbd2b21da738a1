// SPDX-License-Identifier: Apache-2.0
// The parameters of a generated attention that do not follow from its operands, and their text form:
//
//   npugraph.attention 1 after 0 before 127 at given mask nan logsumexp scale 0.125
//
// Each word may be missing together with its number.
// Query head h of H reads head h / (H / heads of the keys) of keys and values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace npugraph::loop {

// Position of the first query among the keys.
enum class AttentionPosition : uint8_t {
  kStart,  // at the first key
  kEnd,    // so that the last query is at the last key
  kGiven,  // given by an integer in memory
};

struct Attention {
  // A query at position p sees the keys from p - before to p + after; without a number there is no such limit.
  std::optional<int64_t> before;
  std::optional<int64_t> after;
  AttentionPosition position = AttentionPosition::kStart;
  bool mask = false;            // there is a mask tensor: floats are added to the scores, booleans select the keys seen
  bool empty_is_nan = false;    // a query that sees no keys gives NaNs instead of zeros
  bool logsumexp = false;       // the log-sum-exp of the scores of each query is another result
  std::optional<double> scale;  // factor of the products of queries and keys; by default 1 / sqrt(size of a head)

  bool operator==(const Attention&) const = default;
};

// Largest magnitude of `before` and `after`.
inline constexpr int64_t kMostKeys = int64_t{1} << 40;

// The text parses to an equal value.
std::string print(const Attention& attention);

// UserError with the source on any other text.
Attention parse_attention(std::string_view text, std::string_view source);

}  // namespace npugraph::loop
