// SPDX-License-Identifier: Apache-2.0
// The table of operators: one row for each operator about which a pass, the lowering or the verifier knows more than
// its schema says. rows/ holds the rows; all other code uses these functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/op.h"

namespace npugraph::ops {

// Operators of the process: those of the table, and those interned from schemas. Thread-safe.
ir::OpResolver& registry();
// The operator of this name. UserError if there is none.
const ir::Op& require(std::string_view name);
// The operator whose in-place twin this one is; null if there is none.
const ir::Op* functional_form(const ir::Op& op);
// Names of the static rows, in table order.
std::vector<std::string_view> table_names();

// Parses an operator schema in torch's notation. UserError on malformed text.
ir::Schema parse_schema(std::string_view text);
// Traits that follow from the schema alone (kMutates; kView for a result that aliases an argument without write).
ir::Traits traits_of(const ir::Schema& schema);

// Types of the results for these arguments, with eager's strides, by the rule of the operator's row. Sizes that are
// known only at run time are the symbols of `defines`. An undefined result is an OpaqueType without a name. Returns
// nullopt if the operator has no rule, or the rule leaves the answer open. UserError if the arguments do not fit.
std::optional<std::vector<ir::Type>> infer_types(const ir::Graph& graph, const ir::Op& op,
                                                 const std::vector<Attr>& args,
                                                 const std::vector<ir::SymbolDef>& defines = {});
bool has_rule(const ir::Op& op);
// The strides of a fresh result if symbols leave eager's open: none, so that there is no answer, or row-major ones.
enum class OpenStrides : uint8_t { kNone, kRowMajor };
// The same for a node, with the offsets of views.
std::optional<ir::Inferred> infer_results(const ir::Graph& graph, const ir::Node& node,
                                          OpenStrides open_strides = OpenStrides::kNone);

// One result of a view as an affine map: its sizes, strides and offset in the base.
struct ViewResult {
  std::vector<Expr> sizes;
  std::vector<Expr> strides;
  Expr offset;
};
// One entry per result; nullopt if the operator has no view rule, or the rule leaves the answer open.
std::optional<std::vector<ViewResult>> infer_views(const ir::Graph& graph, const ir::Op& op,
                                                   const std::vector<Attr>& args);
// Whether a tensor of this type lies as `view` says, for all values of the symbols with which it has elements.
bool is_view(const ir::TensorType& type, const ViewResult& view, const std::vector<ir::Symbol>& symbols);

// Compares declared result types with the rules of the table, which the verifier in ir/ does not know.

// Returns an empty string, or a message on the first node whose result types or view offsets contradict its row. Nodes
// without a rule, and nodes for which the rule leaves the answer open, pass. Requires a graph that ir::verify accepts.
std::string verify_types(const ir::Graph& graph);

// For each node, in order, "<operator>: " and how its declared types compare with the rule of its row: "agrees" if
// sizes and strides are equal; "open" if the rule leaves the answer open; "no rule"; else "differs: ..." or
// "raises: ...".
std::vector<std::string> compare_types(const ir::Graph& graph);

// Precompiled kernels that compute an elementwise operator of few elements.

// Element types that a kernel takes. All tensors have the same type, and so has the result unless the name says
// otherwise. The last two also take one f32 and one i64 tensor, for a result of f32.
enum class KernelTypes : uint8_t { kF32, kF32OrI64, kF32OrI64ToBool, kBool, kF32MixedWithI64, kF32OrI64OrMixed };

struct SmallKernel {
  std::string_view name;  // empty if there is no kernel
  KernelTypes accepts = KernelTypes::kF32;
  // Number of leading arguments that go to the kernel as they are; the others must have their default values.
  uint8_t inputs = 0;
};

// The kernel of the operator, or of the functional form of an in-place operator; null if there is none.
const SmallKernel* small_kernel(const ir::Op& op);

}  // namespace npugraph::ops
