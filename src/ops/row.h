// SPDX-License-Identifier: Apache-2.0
// What a row of the table holds, and what its rules are given. Internal to ops/.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "ops/table.h"

namespace npugraph::ops {

// A call of an operator whose result types are asked for.
struct Call {
  const ir::Graph& graph;
  const ir::Op& op;
  const std::vector<Attr>& args;

  // Type of argument `i` when it is a strided tensor, else null.
  const ir::TensorType* tensor(size_t i) const;
  // Integer arguments; nothing when absent or not what is asked for.
  std::optional<Expr> integer(size_t i) const;
  std::optional<int64_t> known_integer(size_t i) const;
  std::optional<std::vector<Expr>> integers(size_t i) const;
  std::optional<std::vector<int64_t>> known_integers(size_t i) const;
  std::optional<bool> boolean(size_t i) const;
  bool is_none(size_t i) const { return std::holds_alternative<None>(args[i]); }
  // Position of the schema argument `name`, or nothing.
  std::optional<size_t> find(std::string_view name) const;
};

using Types = std::optional<std::vector<ir::Type>>;
using Views = std::optional<std::vector<ViewResult>>;
using ShapeRule = Types (*)(const Call&);
using ViewRule = Views (*)(const Call&);

// One trait, several of them (by operator|), or 0.
struct TraitSet {
  ir::Traits bits;
  constexpr TraitSet(ir::Trait trait) : bits(static_cast<ir::Traits>(trait)) {}  // NOLINT: rows are written as lists
  constexpr TraitSet(ir::Traits traits) : bits(traits) {}                        // NOLINT
};

struct Row {
  const char* schema;
  TraitSet traits;  // those of the schema come on top
  const char* inplace_twin = nullptr;
  ShapeRule shape = nullptr;  // not needed where a view rule or the returned operand says the type
  ViewRule view = nullptr;
};

// An Op of the process. `row` is null for operators that the table does not know.
struct RegisteredOp : ir::Op {
  const Row* row = nullptr;
};

// `dim` of a tensor of this rank, counted from the end when negative. UserError that names the operator when out of range.
int64_t normalise_dim(const Call& call, int64_t dim, int64_t rank);

}  // namespace npugraph::ops
