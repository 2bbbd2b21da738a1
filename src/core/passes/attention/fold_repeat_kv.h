// SPDX-License-Identifier: Apache-2.0
// Lets attention read grouped keys and values as they are.
//
//   %u = aten.unsqueeze(%k, 2)                              %o, %l = aten._scaled_dot_product_flash_attention_for_cpu(
//   %e = aten.expand(%u, [b, h, n, s, d])                                %q, %k, %v, ...)
//   %c = aten.clone(%e, memory_format=...)           ->
//   %r = aten.view(%c, [b, h*n, s, d])
//   (the same for %v)
//   %o, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %r, %w, ...)
//
// The repeat copies the whole cache at every step. The CPU kernel does not need it: query head i reads key head i /
// (heads of the query / heads of the key), which is the order in which repeat_kv repeats; results are equal to the bit.
// The pattern is recognised by sizes and strides of views, not by their operators. The copies are left for dce.
//
// Requires: keys and values are both repeated, by the same number; elements of one row are adjacent (stride 1), as the
// kernel requires; keys and values are not written between the repeat and its use.
// Guarantees: types of the results. Only the forward kernel is touched.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int fold_repeat_kv(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
