// SPDX-License-Identifier: Apache-2.0
// Computes at compile time the values that do not depend on the inputs.
//
//   %r = aten.arange(8)                            const %r : i64[8] derived = [...]
//   %m = aten.mul.Tensor(%r, 2)              ->    const %m : i64[8] derived = [...]
//   %a = aten.add.Tensor(%x, %m)                   %a = aten.add.Tensor(%x, %m)
//
// Folds nodes whose tensor operands are constants, and creation operators with known sizes. PassContext::evaluate runs
// them; results of up to kMaxFoldedBytes each become derived constants. Views of constants are folded when a node that
// reads them is folded.
//
// Requires: nothing. Without an evaluator it does nothing.
// Must not: fold random, side-effecting, writing or opaque nodes; memory that is written, returned (an output is fresh
// memory) or handed to an opaque callable (which may write or keep it); uninitialised tensors; symbolic sizes or
// scalars; values that an epilogue writes into an input after a node that may fail.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

inline constexpr int64_t kMaxFoldedBytes = int64_t{4} << 20;

int fold_constants(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
