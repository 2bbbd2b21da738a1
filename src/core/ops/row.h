// SPDX-License-Identifier: Apache-2.0
// The contents of a row of the table, and the arguments of its rules. Internal to ops/.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "loop/builder.h"
#include "ops/table.h"

namespace npugraph::ops {

// A call of an operator, as the rules see it.
struct Call {
  const ir::Graph& graph;
  const ir::Op& op;
  const std::vector<Attr>& args;
  const std::vector<ir::SymbolDef>& defines;
  OpenStrides open_strides = OpenStrides::kNone;

  // Type of argument `i` when it is a strided tensor, else null.
  const ir::TensorType* tensor(size_t i) const;
  // Integer arguments; nullopt if absent or of another kind.
  std::optional<Expr> integer(size_t i) const;
  std::optional<int64_t> known_integer(size_t i) const;
  std::optional<std::vector<Expr>> integers(size_t i) const;
  std::optional<std::vector<int64_t>> known_integers(size_t i) const;
  std::optional<bool> boolean(size_t i) const;
  bool is_none(size_t i) const { return std::holds_alternative<None>(args[i]); }
  // Position of the schema argument `name`, or nullopt.
  std::optional<size_t> find(std::string_view name) const;
  // The symbol that the call defines for a size of a result, or nullopt.
  std::optional<Expr> defined_size(int32_t result, int32_t dim) const;
};

using Types = std::optional<std::vector<ir::Type>>;
using Views = std::optional<std::vector<ViewResult>>;
using ShapeRule = Types (*)(const Call&);
using ViewRule = Views (*)(const Call&);

// One trait, several of them (by operator|), or 0.
struct TraitSet {
  ir::Traits bits = 0;
  constexpr TraitSet() = default;
  constexpr TraitSet(ir::Trait trait) : bits(static_cast<ir::Traits>(trait)) {}  // NOLINT: rows are written as lists
  constexpr TraitSet(ir::Traits traits) : bits(traits) {}                        // NOLINT
};

// The formula of one element of the result of an elementwise operator (scalar_rules.h).
class ScalarArgs;
enum class Domain : uint8_t;
struct ScalarRule {
  Domain domain{};
  loop::Value (*formula)(const ScalarArgs& args) = nullptr;
  // Requirements of the formula beyond its domain; null if there are none.
  bool (*fits)(const Call& call) = nullptr;
};

// How numbers enter a formula that computes in a wider type than that of the tensors (bf16 and f16 in f32). Follows
// ATen, where it is a property of each kernel.
enum class Numbers : uint8_t {
  kUnstated,   // the formula takes no numbers, or converts them to the type of the result
  kRounded,    // rounded to the common type first, as tensors are
  kUnrounded,  // not rounded; nor is a tensor of one element in the place of `other`
};

// Arithmetic operations of one call (node_facts.h).
using OperationsRule = Expr (*)(const ir::Graph& graph, const ir::Node& node);

struct Row {
  const char* schema;
  TraitSet traits;  // in addition to those of the schema
  const char* inplace_twin = nullptr;
  ShapeRule shape = nullptr;  // not needed if a view rule or the returned operand gives the type
  ViewRule view = nullptr;
  ScalarRule scalar;  // only in rows of functional operators; in-place ones use that of their functional forms
  Numbers numbers = Numbers::kUnstated;
  SmallKernel kernel;  // of functional operators; their in-place twins use it too
  OperationsRule operations = nullptr;
  bool any_order = false;  // code that adds a node may choose the memory order of its results' dimensions
};

// The row of an operator; null if it is not in the table.
const Row* row_of(const ir::Op& op);

// `dim` of a tensor of this rank, counted from the end if negative. UserError that names the operator if out of range.
int64_t normalise_dim(const Call& call, int64_t dim, int64_t rank);

}  // namespace npugraph::ops
