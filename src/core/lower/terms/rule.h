// SPDX-License-Identifier: Apache-2.0
// How kinds of nodes become terms, and the helpers that families of rules share. Internal to lower/.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "lower/arguments.h"
#include "lower/terms/writer.h"
#include "ops/operator_rows.h"

namespace npugraph::lower {

struct Rule {
  bool (*fits)(const ir::Graph& graph, const ir::Node& node);
  // Requires that the node fits.
  void (*write)(TermWriter& w, const ir::Graph& graph, const ir::Node& node);
  TermKind kind;
  // The argument whose sizes are the space; nullopt: the result.
  std::optional<ops::ArgumentName> space = {};
  // The dimensions of the space that are combined, in any order; null: none.
  std::vector<int> (*walk)(const ir::Graph& graph, const ir::Node& node) = nullptr;
  // The space, where it is that of no argument and of no result.
  std::vector<Expr> (*make_space)(const ir::Graph& graph, const ir::Node& node) = nullptr;
  // Whether the rule is only for hosts without the operator.
  bool is_left_to_host = false;
};

// How a node is computed in a loop nest of its own. The nest may read and store elements in any order, and walk over
// many more places than there are elements, so that it is for nodes that nothing else can run.
struct LoneRule {
  bool (*fits)(const ir::Graph& graph, const ir::Node& node);
  // Requires that the node fits.
  void (*write)(TermWriter& w, const ir::Graph& graph, const ir::Node& node);
  std::vector<Expr> (*space)(const ir::Graph& graph, const ir::Node& node);
  // The dimensions of the space that are combined, in any order.
  std::vector<int> (*walk)(const ir::Graph& graph, const ir::Node& node);
  // The dimension whose neighbours share vectors; null: the one along which the result is contiguous.
  int (*lanes)(const ir::Graph& graph, const ir::Node& node) = nullptr;
};

using RuleRow = ops::OperatorRow<Rule>;
using LoneRuleRow = ops::OperatorRow<LoneRule>;

std::span<const RuleRow> reduction_rules();
std::span<const RuleRow> index_rules();
std::span<const RuleRow> window_rules();
std::span<const RuleRow> triangle_rules();
std::span<const RuleRow> scatter_rules();
std::span<const RuleRow> rearrangement_rules();
std::span<const LoneRuleRow> lone_product_rules();
std::span<const LoneRuleRow> lone_reduction_rules();
std::span<const LoneRuleRow> lone_scatter_rules();
std::span<const LoneRuleRow> lone_rearrangement_rules();
std::span<const LoneRuleRow> lone_pool_rules();

// Whether elements are real numbers of at most 8 bytes, which loops compute with.
inline bool is_real_element(DType dtype) { return !is_complex(dtype) && size_of(dtype) <= 8; }

inline bool is_float_tensor(const ir::TensorType* type) {
  return type != nullptr && (type->dtype == DType::kF32 || type->dtype == DType::kF64 || type->dtype == DType::kBF16 ||
                             type->dtype == DType::kF16);
}

// A dimension of a tensor of this rank, where negative numbers count from the end; nullopt if it is not constant.
inline std::optional<int> known_dim(const Expr& e, size_t rank) {
  const auto dim = e.as_int();
  if (!dim) return std::nullopt;
  return static_cast<int>(*dim < 0 ? *dim + static_cast<int64_t>(rank) : *dim);
}

inline std::optional<size_t> dim_of(const Attr& attr, size_t rank) {
  const Expr* e = ops::as_number(attr);
  const auto dim = e == nullptr ? std::nullopt : known_dim(*e, rank);
  return dim ? std::optional(static_cast<size_t>(*dim)) : std::nullopt;
}

// 0, 1, .., as many as `count`, from `first` on.
std::vector<int> counted(size_t count, size_t first = 0);

// Spaces and walks of lone rules.
std::vector<Expr> space_of_result(const ir::Graph& graph, const ir::Node& node);
std::vector<Expr> space_of_self(const ir::Graph& graph, const ir::Node& node);
std::vector<int> no_walk(const ir::Graph& graph, const ir::Node& node);

// The term of an index as a place. With `from_end`, negative indices count from the end of a dimension of that size.
int as_place(TermWriter& w, int index, const std::optional<Expr>& from_end);
// The limit of a check of indices of a dimension of size `size`. Torch checks an index when it accesses an element: if
// the product `others` of the other sizes is 0, there are no elements, and every index passes.
Expr limit_where_read(const Expr& size, const Expr& others);
// Torch's message for an index out of bounds, as the message of a check.
std::string out_of_bounds(std::string_view begin, size_t dim, const Expr& size);

inline loop::Value sub(loop::Builder&, Values v) { return v[0] - v[1]; }
inline loop::Value mul(loop::Builder&, Values v) { return v[0] * v[1]; }
inline loop::Value div(loop::Builder&, Values v) { return v[0] / v[1]; }
inline constexpr int kFunctionCost = 16;

}  // namespace npugraph::lower
