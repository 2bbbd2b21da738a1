// SPDX-License-Identifier: Apache-2.0
// The table of operators: one row for each operator about which a pass, the lowering or the verifier knows more than its
// schema says. rows.inc holds the rows; everything else asks here.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/op.h"

namespace npugraph::ops {

// Rows of the process: those of the table, and those interned from schemas. Thread-safe.
ir::OpResolver& registry();
// UserError when there is no row of this name.
const ir::Op& require(std::string_view name);
// The operator of which this one is the in-place twin; null where there is none.
const ir::Op* functional_form(const ir::Op& op);
// Names of the static rows, in table order.
std::vector<std::string_view> table_names();

// Parses an operator schema in torch's notation. UserError on malformed text.
ir::Schema parse_schema(std::string_view text);
// Traits that follow from the schema alone (kMutates; kView for a result that aliases an argument without write).
ir::Traits traits_of(const ir::Schema& schema);

// Shape and dtype rule of the table's rows: types of the results for these arguments, with eager's strides. Sizes that only a
// run can tell are the symbols of `defines`. An undefined result is an OpaqueType without a name. Nothing when the row has no
// rule, or the rule cannot tell. UserError when the arguments do not fit.
std::optional<std::vector<ir::Type>> infer_types(const ir::Graph& graph, const ir::Op& op,
                                                 const std::vector<Attr>& args,
                                                 const std::vector<ir::SymbolDef>& defines = {});
bool has_rule(const ir::Op& op);
// The same of a node, with the places of views.
std::optional<ir::Inferred> infer_results(const ir::Graph& graph, const ir::Node& node);

// Affine meaning of view rows: for result i, sizes, strides and offset in the base. Nothing when the row has none.
struct ViewResult {
  std::vector<Expr> sizes;
  std::vector<Expr> strides;
  Expr offset;
};
std::optional<std::vector<ViewResult>> infer_views(const ir::Graph& graph, const ir::Op& op,
                                                   const std::vector<Attr>& args);

}  // namespace npugraph::ops
