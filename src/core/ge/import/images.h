// SPDX-License-Identifier: Apache-2.0
// Attributes of operators on images, whose dimensions are batch, channels, height and width (NCHW).
#pragma once

#include <string_view>
#include <vector>

#include "ge/import/call.h"

namespace npugraph::ge {

// UserError if the attribute 'data_format' is not NCHW.
void require_channels_first(const Call& call);

// Entries `first` and `first` + 1 of an attribute that has `entries` of them. UserError for another number of entries,
// or for one of these two below `least`.
std::vector<Expr> two_of(const Call& call, std::string_view name, size_t first, size_t entries, int64_t least);

// Entries of height and width in an attribute of four entries.
inline std::vector<Expr> height_and_width(const Call& call, std::string_view name, int64_t least) {
  return two_of(call, name, 2, 4, least);
}

// The four entries of the attribute 'pads': above, below, left, right. UserError for another number of entries, or for
// a negative one.
std::vector<int64_t> four_pads(const Call& call);
// Those of height and width. UserError if both sides of a dimension differ.
std::vector<Expr> even_pads(const Call& call);

}  // namespace npugraph::ge
