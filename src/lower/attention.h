// SPDX-License-Identifier: Apache-2.0
// Which nodes become generated attention.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "loop/attention.h"

namespace npugraph::lower {

struct AttentionChoice {
  loop::Attention attention;
  std::vector<ir::ValueId> reads;   // queries, keys, values and the mask, if there is one
  std::vector<ir::ValueId> writes;  // the result, and the logsumexp if somebody reads it
};

// Nothing for other nodes, and where code cannot be generated: dropout, elements of f64.
std::optional<AttentionChoice> choose_attention(const ir::Graph& graph, const ir::Uses& uses, const ir::Node& node);

}  // namespace npugraph::lower
