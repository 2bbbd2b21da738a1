// SPDX-License-Identifier: Apache-2.0
// Adds terms; the vocabulary of the rules in terms/rules.cc. Internal to lower/.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lower/terms/terms.h"

namespace npugraph::lower {

class TermWriter {
 public:
  TermWriter(Terms& terms, const ir::Graph& graph) : terms_(terms), graph_(graph) {}

  // The value at a place of the space, in its own type.
  int load(ir::ValueId value);
  // The same where its dimensions run with those of the space in `dims`, as the nodes know them.
  int load_along(ir::ValueId value, std::vector<int> dims);
  // Its element that terms say in the dimensions of `indices`. The others run with those of the space in `dims`.
  int load_indexed(ir::ValueId value, std::vector<int> dims, std::vector<TermAccess::Index> indices);
  // In each of its dimensions the element scale * place + shift; `outside` where the term `inside` is false (kNone: nowhere).
  struct Step {
    int64_t scale = 1;
    int64_t shift = 0;
  };
  int load_stepped(ir::ValueId value, const std::vector<Step>& steps, int inside, double outside);
  int map(std::vector<int> args, int cost, Term::Formula formula);
  // The term as a full one, where it is the same in a whole row.
  int spread(int term);
  int reduce(loop::Combine combine, int arg);
  // How many dimensions a row has; which, as the nodes know them, and the others.
  size_t row_rank() const { return terms_.row_rank(); }
  std::vector<int> row_dims() const;
  std::vector<int> other_dims() const;
  // Where in its row of one dimension the first extreme value stands.
  int reduce_to_place(loop::Combine combine, int arg);
  // The combination of the row up to each place. Requires a full term.
  int scan(loop::Combine combine, int arg);
  // The place in a dimension of the space, as the nodes know it.
  int place(int dim);
  // Converted to the type in which floats compute.
  int in_float(ir::ValueId value);
  // What a product in front of the group sums.
  int sums();
  // How long a row is.
  int count(DType dtype);
  void reads(const Expr& scalar) { terms_.scalars_.push_back(scalar); }
  void check(TermCheck check);

  // What computes inside `write` is a part: the places [first, first + size) of dimension `dim`.
  template <typename Write>
  int in_part(int dim, const Expr& first, const Expr& size, Write write) {
    const int around = part_;
    part_ = add_part(dim, first, size);
    const int term = write();
    part_ = around;
    return term;
  }

  // `value` is what `term` computes, converted to the type of `value`.
  void result(ir::ValueId value, int term);
  // The same for a result that has no dimensions for the row.
  void result_without_row(ir::ValueId value, int term);
  // `operand` is written where the place in the space says, or by `access`; from then on `value` names what it holds.
  void write(ir::ValueId operand, ir::ValueId value, int term);
  void write_indexed(ir::ValueId operand, int term, size_t dim, int index);
  // `value` is what `term` computes.
  int name(ir::ValueId value, int term);

 private:
  int add(Term term);
  int add_load(TermAccess access);
  int add_part(int dim, const Expr& first, const Expr& size);
  int rounded(ir::ValueId value, int term);
  std::vector<int> aligned(ir::ValueId value) const;
  TermAccess access(ir::ValueId value, const std::vector<int>& dims) const;
  TermAccess indexed(ir::ValueId value, std::vector<int> dims, std::vector<TermAccess::Index> indices) const;

  Terms& terms_;
  const ir::Graph& graph_;
  int part_ = ir::kNone;
};

}  // namespace npugraph::lower
