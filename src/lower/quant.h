// SPDX-License-Identifier: Apache-2.0
// Operators on quantised weights (python/npugraph/gguf) as generated tasks: their texts are those of codegen/quant.h.
#pragma once

#include <string>

#include "ir/graph.h"

namespace npugraph::lower {

// A product of a matrix x and weights in blocks, of types that generated code takes.
bool is_quantised_product(const ir::Graph& graph, const ir::Node& node);

// A product of x [m, k] and weights i8 [n, k], times a scale for each of their rows.
bool is_int8_product(const ir::Graph& graph, const ir::Node& node);

// What stands in front of the epilogue's text: nothing for other products.
std::string product_head(const ir::Graph& graph, const ir::Node& product);

}  // namespace npugraph::lower
