// SPDX-License-Identifier: Apache-2.0
// Operators on quantised weights (python/npugraph/gguf) as generated tasks: their texts are those of codegen/quant.h.
#pragma once

#include <string>

#include "ir/graph.h"
#include "lower/catalog.h"

namespace npugraph::lower {

// A product of a matrix x and weights in blocks, of types that generated code takes.
bool is_quantised_product(const ir::Graph& graph, const ir::Node& node);

// A product of x [m, k] and weights i8 [n, k], times a scale for each of their rows.
bool is_int8_product(const ir::Graph& graph, const ir::Node& node);

// A product of x [m, k] and weights of 4 bits that torch packed, with scales and zeros.
bool is_int4_product(const ir::Graph& graph, const ir::Node& node);

// A product of integers i8 [m, k] and [k, n], contiguous along k, as i32.
bool is_integer_product(const ir::Graph& graph, const ir::Node& node);

// Whether the host packs the weights of an int4 product in a way that generated code does not read.
bool is_packed_otherwise(const ir::Graph& graph, const ir::Node& node, const OperatorCatalog& catalog);

// What stands in front of the epilogue's text: nothing for other products. Requires !is_packed_otherwise().
std::string product_head(const ir::Graph& graph, const ir::Node& product, const OperatorCatalog& catalog);

}  // namespace npugraph::lower
