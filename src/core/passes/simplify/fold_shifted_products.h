// SPDX-License-Identifier: Apache-2.0
// Removes the detour of products of i8 through u8, which programs take because processors multiply u8 with i8.
//
//   %a = aten._to_copy(%x, i32)
//   %b = aten.add.Tensor(%a, 128)
//   %u = aten._to_copy(%b, u8)                 ->    %y = aten._int_mm(%x, %w)
//   %p = aten._int_mm(%u, %w)
//   %s = aten.sum.dim_IntList(%w, [0], .., i32)
//   %m = aten.mul.Tensor(%s, 128)
//   %y = aten.sub.Tensor(%p, %m)
//
// Generated products of i8 compensate for the sign themselves, and read no weights for it.
//
// Requires: fuses (code is generated); %p has no other reader; %x and %w are not written in between.
// Guarantees: types and values to the bit: sums of integers wrap.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int fold_shifted_products(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
