// SPDX-License-Identifier: Apache-2.0
// Replaces two batched products and the softmax between them by one attention operator.
//
//   %p = aten.bmm(%q, %t)                       [b * h, queries, d] and [b * h, d, keys]
//   %s = aten.view(%p, [b, h, queries, keys])
//   %x = aten.mul.Tensor(%s, 0.125)                                  %a = npugraph.attention(%q4, %k4, %v4, %mask,
//   %y = aten.add.Tensor(%x, %mask)                             ->           scale=0.125, empty_is_nan=true)
//   %z = aten._softmax(%y, -1, false)                                %o = aten.view(%a, [b * h, queries, e])
//   %w = aten.view(%z, [b * h, queries, keys])
//   %o = aten.bmm(%w, %v)
//
// The scores are then not stored. The scale may be a division; scale and mask may be missing. Conversions around the
// softmax and copies of it (dropout that drops nothing) are removed. If the result is only copied to [b, queries, h,
// e], attention writes this layout directly.
//
// Requires: fuses (code is generated) and no training; each value between the products has one reader; the softmax is
// over the keys; the scale is a constant number; the mask has two or four dimensions, which are those of the scores or
// 1; queries, keys and mask are not written in between.
// Guarantees: types; values up to rounding: intermediate results are not rounded to a narrow type.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int fuse_attention(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
