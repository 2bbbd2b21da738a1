// SPDX-License-Identifier: Apache-2.0
// Large operands: results that no cache holds go past the caches, because a plain store reads each line before it writes it, and
// what is not in the cache of a core is fetched ahead.
#pragma once

#include <span>

#include "ir/graph.h"
#include "lower/nest/loop_nest.h"
#include "target/target.h"

namespace npugraph::lower {

// Marks the stores of a nest over `space` of which the bytes are known to be more than the last cache of `target` holds, and the
// loads of which they are more than the second one does.
void stream_large_operands(LoopNest& nest, const ir::Graph& graph, std::span<const Expr> space,
                           const target::Target& target);

}  // namespace npugraph::lower
