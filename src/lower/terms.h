// SPDX-License-Identifier: Apache-2.0
// What a group of nodes computes, element by element: a graph of terms over one iteration space.
//
// The space is a list of sizes; its last dimension is the row. A full term has a value per element of the space, a row term
// one per row (its tensor has size 1 in the last dimension). A reduction turns a full term into a row term. The level of a
// term is the number of reductions that stand one behind the other before it: what must wait for that many walks over the row.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "loop/builder.h"

namespace npugraph::lower {

struct Term {
  enum class Kind : uint8_t { kLoad, kMap, kReduce };
  using Formula = std::function<loop::Value(loop::Builder&, std::span<const loop::Value>)>;
  Kind kind = Kind::kLoad;
  bool row = false;
  int level = 0;
  int cost = 0;                   // arithmetic operations, roughly, from loads on
  ir::ValueId value = ir::kNone;  // kLoad: what is loaded; kNone: the sums of the product in front
  std::vector<int> args;          // kMap, kReduce: terms
  Formula formula;                // kMap
  loop::Combine combine = loop::Combine::kSum;
};

// A result that leaves the group.
struct TermResult {
  ir::ValueId value = ir::kNone;
  int term = 0;
};

class Terms {
 public:
  explicit Terms(std::vector<Expr> space) : space_(std::move(space)) {}

  // Adds what the node computes. Its operands are results of nodes added before, or are loaded.
  // Requires that space_of() of the node is this space.
  void add(const ir::Graph& graph, const ir::Node& node);

  // Puts a matrix product in front: from now on its result, and `view` that is the same elements, are what it sums (plus the
  // bias of addmm), rounded to the result's type where others read it. Requires is_product().
  void add_product(const ir::Graph& graph, const ir::Node& node, ir::ValueId view);

  const std::vector<Expr>& space() const { return space_; }
  const Term& term(int id) const { return terms_[id]; }
  int size() const { return static_cast<int>(terms_.size()); }
  int term_of(ir::ValueId value) const;  // -1: none
  bool has_reductions() const;
  // Expressions of the graph's symbols that formulas read.
  const std::vector<Expr>& scalars() const { return scalars_; }

 private:
  friend class TermWriter;

  std::vector<Expr> space_;
  std::vector<Expr> scalars_;
  std::vector<Term> terms_;
  std::vector<TermResult> known_;
};

// The iteration space of a node that has terms, of at least one dimension: its operands and results are elements or rows of
// it. Nothing for other nodes.
std::optional<std::vector<Expr>> space_of(const ir::Graph& graph, const ir::Node& node);

// A matrix product of f32 or bf16 that generated code computes.
bool is_product(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::lower
