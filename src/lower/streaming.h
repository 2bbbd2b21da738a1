// SPDX-License-Identifier: Apache-2.0
// Results that no cache holds go past the caches: a plain store reads each line before it writes it.
#pragma once

#include <span>

#include "ir/graph.h"
#include "lower/loop_nest.h"
#include "target/target.h"

namespace npugraph::lower {

// Marks the stores of a nest over `space` whose bytes are known to be more than the last cache of `target` holds.
void stream_large_results(LoopNest& nest, const ir::Graph& graph, std::span<const Expr> space,
                          const target::Target& target);

}  // namespace npugraph::lower
