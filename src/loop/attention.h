// SPDX-License-Identifier: Apache-2.0
// What a generated attention computes beside what its operands say, and its text form:
//
//   npugraph.attention 1 causal mask logsumexp scale 0.125
//
// Each word may be missing. Query head h of H reads head h / (H / heads of the keys) of keys and values. A row of queries that
// sees no key gives zeros.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace npugraph::loop {

struct Attention {
  bool causal = false;          // query i sees the keys 0 to i
  bool mask = false;            // a tensor: floats are added to the scores, booleans say which keys are seen
  bool logsumexp = false;       // of the scores of each query, is a result too
  std::optional<double> scale;  // of the products of queries and keys; none: 1 / sqrt(size of a head)

  bool operator==(const Attention&) const = default;
};

// What is printed parses to an equal value.
std::string print(const Attention& attention);

// UserError with the source on any other text.
Attention parse_attention(std::string_view text, std::string_view source);

}  // namespace npugraph::loop
