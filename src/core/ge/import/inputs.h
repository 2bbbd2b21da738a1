// SPDX-License-Identifier: Apache-2.0
// Inputs of an IR graph, and the attributes by which npugraph's own front end says more than Ascend IR does. A model
// without them has the same results; engines that do not know them ignore them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ge/import/context.h"
#include "ge/model.h"
#include "ir/graph.h"

namespace npugraph::ge {

namespace attr {
// Of an operator: the line of the user's program, or the name of an input there.
inline constexpr std::string_view kSource = "_npugraph_source";
// Of an operator: that of the user which computes it, "my_ops.scaled_add", by a kernel in a library or of the host.
inline constexpr std::string_view kOperator = "_npugraph_operator";
// Of an operator with kOperator, whose inputs, attributes and outputs are not those of the schema: a list of texts, for
// each input the argument that it is, empty if it is none; the values of other arguments, each as an attribute with the
// name of the argument behind the prefix; a list of integers, for each new result of the schema the output that it is.
inline constexpr std::string_view kArguments = "_npugraph_arguments";
inline constexpr std::string_view kArgumentPrefix = "_npugraph_argument.";
inline constexpr std::string_view kResults = "_npugraph_results";
// Of an operator: a graph of other operators that compute the same. The input with index i is input i of the operator,
// and the inputs of the end are its outputs in order, absent those that the graph does not compute.
inline constexpr std::string_view kParts = "_npugraph_parts";
// Of an input: "parameter", "buffer" or "static".
inline constexpr std::string_view kKind = "_npugraph_kind";
// Of an input: it is a number of the user's program and not a tensor, with this text as an expression of sizes.
inline constexpr std::string_view kValue = "_npugraph_value";
// Of the descriptor of an input, of an output of the graph, or of a result of a user's operator: sizes and strides as
// expressions, a list of texts. Strides are those of a dense row-major tensor if they are left out.
inline constexpr std::string_view kSizes = "_npugraph_sizes";
inline constexpr std::string_view kStrides = "_npugraph_strides";
// Of the graph: symbols of sizes, a list of names, and of integers the least and the largest value of each.
inline constexpr std::string_view kRanges = "_npugraph_ranges";
}  // namespace attr

// The text of an attribute of an operator; empty if it has none.
std::string text_attr(const OpDef& op, std::string_view name);
// The element type of a descriptor. UserError for a type that the engine does not compute with.
DType element_type(const TensorDesc& desc);

// The strides that a descriptor states; nullopt if it states none.
std::optional<std::vector<Expr>> stated_strides(Context& context, const TensorDesc& desc);

// The sizes that a descriptor states as numbers or as expressions, with symbols of `context` for those that it does
// not.
std::vector<Expr> sizes_of(Context& context, const TensorDesc& desc);

// The bounds that a graph states. UserError if they are not a pair for each name.
SizeBounds stated_bounds(const GraphDef& def);

// Type of an input, with symbols of `context` for unknown sizes. UserError if its descriptor or its attributes
// contradict each other.
ir::TensorType input_type(Context& context, const OpDef& op);
ir::InputKind input_kind(const OpDef& op);

}  // namespace npugraph::ge
