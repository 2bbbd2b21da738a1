// SPDX-License-Identifier: Apache-2.0
// Tells attention which keys each query sees, where its mask is made of comparisons of positions.
//
//   %q = aten.unsqueeze(aten.add.Tensor(aten.arange(n), %length), 1)
//   %s = aten.le.Tensor(aten.arange(m), %q)
//   %m = aten.where.self(%s, 0.0, -inf)
//   %o, %l = aten._scaled_dot_product_flash_attention_for_cpu(%queries, %k, %v, attn_mask=%m)
// ->
//   %o = npugraph.attention(%queries, %k, %v, None, %length, after=0)
//
// Generated attention then neither makes nor reads the mask, and no keys beyond the bounds: with a cache of fixed size it reads
// as much of it as is filled. A position that is a symbol is put into memory first. A part of the mask that is none of positions (padding) stays, as booleans. Where the mask hides
// nothing it goes; where it is the causal one the operator is told so.
//
// Requires: fuses (code is generated); nobody writes the position or the rest of the mask before attention reads it.
// Guarantees: types; values up to rounding. The nodes that made the mask are left for dce.
// Must not: touch attention whose logsumexp is read (its gradient needs the operator), but for masks that go altogether.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int bound_attention(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
