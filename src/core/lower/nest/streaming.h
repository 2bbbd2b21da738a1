// SPDX-License-Identifier: Apache-2.0
// Large operands: results too large for the caches are stored past them, because a plain store reads each line before
// it writes it, and operands too large for the cache of a core are fetched ahead.
#pragma once

#include <span>

#include "ir/graph.h"
#include "lower/nest/loop_nest.h"
#include "target/target.h"

namespace npugraph::lower {

// Marks the stores of a nest over `space` to operands that are known to be larger than the last cache of `target`, and
// the loads of those known to be larger than the second one.
void stream_large_operands(LoopNest& nest, const ir::Graph& graph, std::span<const Expr> space,
                           const target::Target& target);

}  // namespace npugraph::lower
