// SPDX-License-Identifier: Apache-2.0
// Adds terms: the interface that rules write with. Internal to lower/.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lower/terms/terms.h"

namespace npugraph::lower {

class TermWriter {
 public:
  TermWriter(Terms& terms, const ir::Graph& graph) : terms_(terms), graph_(graph) {}

  // The element of a value at the place in the space, in its own type.
  int load(ir::ValueId value);
  // The same for a value whose dimensions take the places of dimensions `dims` of the space, as the nodes number them.
  int load_along(ir::ValueId value, std::vector<int> dims);
  // The same with elements from terms in the dimensions of `indices`; the other dimensions take the places of `dims`.
  // 0 where the term `inside` is false (kNone: nowhere).
  int load_indexed(ir::ValueId value, std::vector<int> dims, std::vector<TermAccess::Index> indices,
                   int inside = ir::kNone);
  // The element scale * place + shift in each dimension of a value; `outside` where the term `inside` is
  // false (kNone: nowhere).
  struct Step {
    int64_t scale = 1;
    int64_t shift = 0;
  };
  int load_stepped(ir::ValueId value, const std::vector<Step>& steps, int inside, double outside);
  int map(std::vector<int> args, int cost, Term::Formula formula);
  // A full term with the value of `term`, which may be a row term.
  int spread(int term);
  int reduce(loop::Combine combine, int arg);
  // The number of dimensions of a row; these dimensions, and the others, as the nodes number them.
  size_t row_rank() const { return terms_.row_rank(); }
  std::vector<int> row_dims() const;
  std::vector<int> other_dims() const;
  // The dimension of neighbours in memory, which is the last one in the space, as the nodes number it.
  int lanes() const;
  // The place of the first extreme value in its row, which must have one dimension.
  int reduce_to_place(loop::Combine combine, int arg);
  // The combination of the row up to and including each place. Requires a full term.
  int scan(loop::Combine combine, int arg);
  // The place in a dimension of the space, as the nodes number it. In a part, it counts from the part's first place.
  int place(int dim);
  // The element of a value, converted to the type in which floats are computed.
  int in_float(ir::ValueId value);
  // The sums of the product in front of the group.
  int sums();
  // The number of elements of a row.
  int count(DType dtype);
  void reads(const Expr& scalar) { terms_.scalars_.push_back(scalar); }
  void check(TermCheck check);

  // Runs `write`, whose terms become a part: the places [first, first + size) of dimension `dim`.
  template <typename Write>
  int in_part(int dim, const Expr& first, const Expr& size, Write write) {
    const int around = part_;
    part_ = add_part(dim, first, size);
    const int term = write();
    part_ = around;
    return term;
  }

  // Declares that `term`, converted to the type of `value`, computes `value`.
  void result(ir::ValueId value, int term);
  // The same for a result without the dimensions of the row.
  void result_without_row(ir::ValueId value, int term);
  // Writes `term` into `operand` at the place in the space, or without the dimensions of the row. `value` then names
  // the contents of the operand.
  void write(ir::ValueId operand, ir::ValueId value, int term);
  void write_without_row(ir::ValueId operand, ir::ValueId value, int term);
  // The same at elements from terms in the dimensions of `indices`; the other dimensions take the places of `dims`.
  void write_indexed(ir::ValueId operand, int term, std::vector<int> dims, std::vector<TermAccess::Index> indices);
  // Declares that `term` computes `value`.
  int name(ir::ValueId value, int term);

 private:
  int place_in_space(int dim);
  Expr first_of_part(int dim) const;
  int add(Term term);
  int add_load(TermAccess access);
  int add_part(int dim, const Expr& first, const Expr& size);
  int rounded(ir::ValueId value, int term);
  void add_write(ir::ValueId operand, ir::ValueId value, int term, TermAccess store);
  std::vector<int> aligned(ir::ValueId value) const;
  TermAccess access(ir::ValueId value, const std::vector<int>& dims) const;
  TermAccess indexed(ir::ValueId value, std::vector<int> dims, std::vector<TermAccess::Index> indices) const;

  Terms& terms_;
  const ir::Graph& graph_;
  int part_ = ir::kNone;
};

// Which nodes have terms, and how these are written. Internal to lower/; terms/terms.h is the interface
// for other files.

// Requires that the node has terms.
void write_terms(TermWriter& writer, const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::lower
