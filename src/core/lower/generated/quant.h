// SPDX-License-Identifier: Apache-2.0
// Operators on quantised weights (python/npugraph/gguf) as generated tasks, with the texts of codegen/quant/quant.h.
#pragma once

#include <string>

#include "ir/graph.h"
#include "lower/catalog.h"

namespace npugraph::lower {

// Whether the node is a product of a matrix x and weights in blocks, of types that generated code takes.
bool is_quantised_product(const ir::Graph& graph, const ir::Node& node);

// Whether the node is a product of x [m, k] and weights i8 [n, k], times a scale for each row of the weights.
bool is_int8_product(const ir::Graph& graph, const ir::Node& node);

// Whether the node is a product of x [m, k] and weights of 4 bits that torch packed, with scales and zeros.
bool is_int4_product(const ir::Graph& graph, const ir::Node& node);

// Whether the node is a product of matrices [m, k], i8 or u8, and [k, n], i8 and contiguous along k, with a result of
// i32.
bool is_integer_product(const ir::Graph& graph, const ir::Node& node);

// Whether the host packs the weights of an int4 product in a way that generated code does not read.
bool is_packed_otherwise(const ir::Graph& graph, const ir::Node& node, const OperatorCatalog& catalog);

// Which operand, or packing of one, keeps a product of the last three kinds from being generated; empty for products
// that are generated, and for other nodes.
std::string product_obstacle(const ir::Graph& graph, const ir::Node& node, const OperatorCatalog& catalog);

// The text in front of the epilogue's text; empty if the product needs none. Requires !is_packed_otherwise().
std::string product_head(const ir::Graph& graph, const ir::Node& product, const OperatorCatalog& catalog);

}  // namespace npugraph::lower
