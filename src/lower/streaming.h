// SPDX-License-Identifier: Apache-2.0
// Operands that no cache holds: results go past the caches, because a plain store reads each line before it writes it, and what
// is read is fetched ahead.
#pragma once

#include <span>

#include "ir/graph.h"
#include "lower/loop_nest.h"
#include "target/target.h"

namespace npugraph::lower {

// Marks the loads and stores of a nest over `space` of which the bytes are known to be more than the last cache of `target`
// holds.
void stream_large_operands(LoopNest& nest, const ir::Graph& graph, std::span<const Expr> space,
                           const target::Target& target);

}  // namespace npugraph::lower
