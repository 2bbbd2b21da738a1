// SPDX-License-Identifier: Apache-2.0
// Which nodes become generated convolutions.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "loop/convolution.h"

namespace npugraph::lower {

struct ConvolutionChoice {
  loop::Convolution convolution;
  std::vector<ir::ValueId> reads;  // weights, image and the bias, if there is one
};

// Nothing for other nodes, and where code cannot be generated: images of three dimensions, transposed convolutions, groups of
// fewer channels than a tile has use for, weights or results that are not contiguous.
std::optional<ConvolutionChoice> choose_convolution(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::lower
