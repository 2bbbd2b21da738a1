// SPDX-License-Identifier: Apache-2.0
// Tells attention which keys each query sees, if its mask is made of comparisons of positions.
//
//   %q = aten.unsqueeze(aten.add.Tensor(aten.arange(n), %length), 1)
//   %s = aten.le.Tensor(aten.arange(m), %q)
//   %m = aten.where.self(%s, 0.0, -inf)
//   %o, %l = aten._scaled_dot_product_flash_attention_for_cpu(%queries, %k, %v, attn_mask=%m)
// ->
//   %o = npugraph.attention(%queries, %k, %v, None, %length, after=0)
//
// Generated attention then neither makes nor reads the mask, and reads no keys beyond the bounds: of a cache of fixed
// size it reads only the filled part. A position that is a symbol is put into memory first. A part of the mask that
// does not depend on positions (padding) stays, as booleans. A mask that hides nothing is dropped. A causal mask
// becomes the argument is_causal of the operator.
//
// Requires: fuses (code is generated); position and rest of the mask are not written before attention reads them.
// Guarantees: types; values up to rounding. The nodes that made the mask are left for dce.
// Must not: replace attention whose logsumexp is read (its gradient needs the operator). Dropping its mask is allowed.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int bound_attention(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
