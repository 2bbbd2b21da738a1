// SPDX-License-Identifier: Apache-2.0
// What a group of nodes computes, element by element: a graph of terms over one iteration space.
//
// The space is a list of sizes; its last dimensions, those that reductions combine, are the row. A full term has a value per
// element of the space, a row term one per row (its tensor has size 1 in the dimensions of the row). A reduction turns a full
// term into a row term. The level of a term is the number of reductions that stand one behind the other before it: what must
// wait for that many walks over the row. Neighbours in vectors are those of the row's last dimension, or of the dimension in
// front of the row.
//
// A concatenation selects its parts by the place in the space. What computes a part is written once more for each of them,
// at shifted places: there is no memory between the two.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "loop/builder.h"

namespace npugraph::lower {

// Where the element of a value for a place in the space is.
struct TermAccess {
  ir::ValueId value = ir::kNone;  // kNone: the sums of the product in front
  std::vector<int> dims;  // per dimension of the value: that of the space which it runs with; kNone: its first element
  // Per dimension of the value, its element is scale * place + shift; none: the place.
  std::vector<int64_t> scales;
  std::vector<int64_t> shifts;
  int inside = ir::kNone;  // term: whether there is an element; elsewhere ...
  double outside = 0;      // ... its value
  int part = ir::kNone;    // read at shifted places, see Terms::part()
  struct Index {
    size_t dim = 0;  // in this dimension of the value, its element is ...
    int term = 0;    // ... what this term says, an i64
  };
  std::vector<Index> indices;
  bool is_plain() const { return part == ir::kNone && indices.empty() && scales.empty(); }
};

struct Term {
  enum class Kind : uint8_t { kLoad, kPlace, kMap, kReduce, kScan };
  using Formula = std::function<loop::Value(loop::Builder&, std::span<const loop::Value>)>;
  Kind kind = Kind::kLoad;
  bool row = false;
  int level = 0;
  int cost = 0;           // arithmetic operations, roughly, from loads on
  TermAccess access;      // kLoad
  int dim = ir::kNone;    // kPlace: the place in this dimension of the space, an i64
  std::vector<int> args;  // kMap, kReduce, kScan: terms
  Formula formula;        // kMap
  loop::Combine combine = loop::Combine::kSum;
  bool to_place = false;  // kReduce: the first place that has the result, an i64
};

// A part of a concatenation: the places [first, first + size) of dimension `dim`, in those of the part around it.
struct TermPart {
  int around = ir::kNone;
  int dim = 0;
  Expr first;
  int inside = ir::kNone;  // term: whether a place is in the part
};

// A value that nodes of the group compute, and where its elements are stored when it leaves the group.
struct TermResult {
  ir::ValueId value = ir::kNone;
  int part = ir::kNone;  // where it is known
  int term = 0;
  TermAccess store;
};

// Elements of `index` must be in [-limit, limit), or in [0, limit) unless it counts `from_end` too.
struct TermCheck {
  ir::ValueId index = ir::kNone;
  Expr limit;
  bool from_end = false;
  std::string message;  // a "%" in it stands for the element
};

class Terms {
 public:
  // `lanes`: the dimension of `space` whose neighbours share vectors; kNone: the last one. `walk`: the dimensions that
  // reductions combine, ascending; where there are none, that of the lanes is the row. The others keep their order.
  explicit Terms(std::vector<Expr> space, int lanes = ir::kNone, const std::vector<int>& walk = {});
  // Reads what has no neighbours there in tiles with this dimension, in which it has them.
  void set_tile(int dim) { tile_ = places_[static_cast<size_t>(dim)]; }

  // Adds what the node computes. Its operands are results of nodes added before, or are loaded.
  // Requires that space_of() of the node is this space, or that of its rows, or that of a part of a concatenation which is
  // added later.
  void add(const ir::Graph& graph, const ir::Node& node);

  // Puts a matrix product in front: from now on its result, and `view` that is the same elements, are what it sums (plus the
  // bias of addmm or of a convolution), rounded to the result's type where others read it. Requires is_product(), or a
  // convolution that generated code computes.
  void add_product(const ir::Graph& graph, const ir::Node& node, ir::ValueId view);

  // The type of what the product in front sums.
  DType sums_type() const { return sums_type_; }

  const std::vector<Expr>& space() const { return space_; }
  // How many of the last dimensions are the row.
  size_t row_rank() const { return row_rank_; }
  // How many elements a row has.
  Expr row_length() const;
  // kNone: there are no tiles.
  int tile() const { return tile_; }
  // Whether vectors hold neighbouring rows instead of neighbours in a row.
  bool is_by_columns() const { return by_columns_; }
  const Term& term(int id) const { return terms_[id]; }
  const TermPart& part(int id) const { return parts_[id]; }
  int size() const { return static_cast<int>(terms_.size()); }
  // What is stored for a value that leaves the group, or for an operand that a node writes.
  const TermResult& result(ir::ValueId value) const;
  bool has_reductions() const;
  // Whether something goes from one element of a row to the next.
  bool walks_rows() const;
  // Whether the order of a row's elements matters: for scans, and for the places of extremes.
  bool is_ordered() const;
  // Whether nothing is read or stored but by the place in the space itself.
  bool is_plain() const;
  // What must hold before anything is read or stored, in order.
  const std::vector<TermCheck>& checks() const { return checks_; }
  // Expressions of the graph's symbols that formulas read.
  const std::vector<Expr>& scalars() const { return scalars_; }

 private:
  friend class TermWriter;

  int find(ir::ValueId value, int part) const;  // a term; kNone
  // Whether what `runs` along the row must be computed for each element. Where rows have one element, other dimensions stand in
  // lanes, so everything must.
  bool changes_in_row(bool runs) const { return runs || row_length().is_int(1); }
  bool is_in_row(int place) const { return place + static_cast<int>(row_rank_) >= static_cast<int>(space_.size()); }

  std::vector<Expr> space_;
  std::vector<int> places_;  // per dimension as the nodes know it: which one of space_ it is
  size_t row_rank_ = 1;
  bool by_columns_ = false;
  int tile_ = ir::kNone;
  DType sums_type_ = DType::kF32;
  std::vector<Expr> scalars_;
  std::vector<Term> terms_;
  std::vector<TermPart> parts_;
  std::vector<TermResult> known_;
  std::vector<TermResult> written_;  // operands that nodes write
  std::vector<TermCheck> checks_;
  std::unordered_map<ir::ValueId, const ir::Node*> part_nodes_;  // by result: what only concatenations read
};

// The iteration space of a node that has terms, of at least one dimension: its operands and results are elements or rows of
// it. Nothing for other nodes.
std::optional<std::vector<Expr>> space_of(const ir::Graph& graph, const ir::Node& node);

// The dimensions of its space that a node combines, ascending; none for nodes that combine nothing.
std::vector<int> walk_of(const ir::Graph& graph, const ir::Node& node);

// How a node that has terms touches its operands.
enum class TermKind : uint8_t {
  kElementwise,    // an element of each for each place
  kRows,           // whole rows, see walk_of()
  kConcatenation,  // side by side along the rows
  kGather,         // elements from anywhere: operands are loaded
  kWrite,          // elementwise, into an operand
  kScatter,        // into an operand, where an index operand says: the index is loaded
  kWindow,         // at places around: the operand is loaded
};
// Nothing for nodes without terms.
std::optional<TermKind> term_kind(const ir::Graph& graph, const ir::Node& node);

// The operand that says where a node of kind kScatter writes.
ir::ValueId index_operand(const ir::Node& node);

// A matrix product that generated code computes.
bool is_product(const ir::Graph& graph, const ir::Node& node);
// The two matrices that it multiplies.
std::pair<ir::ValueId, ir::ValueId> matrices_of(const ir::Node& product);

}  // namespace npugraph::lower
