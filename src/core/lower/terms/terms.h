// SPDX-License-Identifier: Apache-2.0
// The computation of a group of nodes, element by element: a graph of terms over one iteration space.
//
// The space is a list of sizes; its last dimensions, those that reductions combine, are the row. A full term has a
// value per element of the space, a row term one per row (its tensor has size 1 in the dimensions of the row). A
// reduction turns a full term into a row term. The level of a term is the length of the longest chain of reductions
// that it depends on, which is the number of walks over the row that it must wait for. Vectors hold neighbours along
// the row's last dimension, or along the dimension in front of the row.
//
// A concatenation selects its parts by the place in the space. The terms that compute a part are written again for each
// part, at shifted places, so that no memory lies between them and the concatenation.
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

// How a place in the space maps to an element of a value.
struct TermAccess {
  ir::ValueId value = ir::kNone;  // kNone: the sums of the product in front
  // Per dimension of the value: the dimension of the space whose place it takes; kNone: its first element.
  std::vector<int> dims;
  // Per dimension of the value: its element is scale * place + shift. Empty: it is the place.
  std::vector<int64_t> scales;
  std::vector<int64_t> shifts;
  int inside = ir::kNone;  // term: whether the element exists; kNone: always
  double outside = 0;      // the value if it does not exist
  int part = ir::kNone;    // part at whose shifted places it is read, see Terms::part()
  struct Index {
    size_t dim = 0;  // dimension of the value
    int term = 0;    // term of its element in that dimension, an i64
  };
  std::vector<Index> indices;
  bool is_plain() const { return part == ir::kNone && indices.empty() && scales.empty(); }
};

using Values = std::span<const loop::Value>;  // of the arguments of a term

struct Term {
  enum class Kind : uint8_t { kLoad, kPlace, kMap, kReduce, kScan };
  using Formula = std::function<loop::Value(loop::Builder&, Values)>;
  Kind kind = Kind::kLoad;
  bool row = false;
  int level = 0;
  int cost = 0;           // approximate number of arithmetic operations since the loads
  TermAccess access;      // kLoad
  int dim = ir::kNone;    // kPlace: the place in this dimension of the space, an i64
  std::vector<int> args;  // kMap, kReduce, kScan: terms
  Formula formula;        // kMap
  loop::Combine combine = loop::Combine::kSum;
  bool to_place = false;  // kReduce: the value is the first place of the extreme, an i64
};

// A part of a concatenation: the places [first, first + size) of dimension `dim`, relative to the part around it.
struct TermPart {
  int around = ir::kNone;
  int dim = 0;
  Expr first;
  int inside = ir::kNone;  // term: whether a place is in the part
};

// A value that nodes of the group compute, and where its elements are stored if it leaves the group.
struct TermResult {
  ir::ValueId value = ir::kNone;
  int part = ir::kNone;  // part in which the term computes it
  int term = 0;
  TermAccess store;
};

// Elements of `index` must be in [-limit, limit) if it may count `from_end`, else in [0, limit).
struct TermCheck {
  ir::ValueId index = ir::kNone;
  Expr limit;
  bool from_end = false;
  std::string message;  // a "%" in it stands for the element
};

class Terms {
 public:
  // `lanes`: the dimension of `space` whose neighbours share vectors; kNone: the last one. `walk`: the dimensions
  // that reductions combine, ascending; if it is empty, the dimension of the lanes is the row. The other dimensions
  // keep their order.
  explicit Terms(std::vector<Expr> space, int lanes = ir::kNone, const std::vector<int>& walk = {});
  // Values that are not contiguous along the lanes are read in tiles of the lanes and of this dimension, along
  // which they are.
  void set_tile(int dim) { tile_ = places_[static_cast<size_t>(dim)]; }

  // Adds the terms of the node. Its operands are results of nodes added before, or are loaded. Requires that space_of()
  // of the node is this space, or the space of its rows, or the space of a part of a concatenation that is added later;
  // or that the node is the only one, and this is the space of its lone_form().
  void add(const ir::Graph& graph, const ir::Node& node);

  // Puts a product in front of the group. Its result, and `view` with the same elements, become terms of its sums (plus
  // the bias of addmm or of a convolution), rounded to the result's type. Requires is_product(), or a convolution that
  // generated code computes.
  void add_product(const ir::Graph& graph, const ir::Node& node, ir::ValueId view);

  // The type of the sums of the product in front.
  DType sums_type() const { return sums_type_; }

  const std::vector<Expr>& space() const { return space_; }
  // How many of the last dimensions are the row.
  size_t row_rank() const { return row_rank_; }
  // How many elements a row has.
  Expr row_length() const;
  // The dimension of set_tile(), as an index into space(); kNone if there are no tiles.
  int tile() const { return tile_; }
  // Whether vectors hold neighbouring rows instead of neighbours in a row.
  bool is_by_columns() const { return by_columns_; }
  const Term& term(int id) const { return terms_[id]; }
  const TermPart& part(int id) const { return parts_[id]; }
  int size() const { return static_cast<int>(terms_.size()); }
  // The result that is stored for a value that leaves the group, or for an operand that a node writes.
  const TermResult& result(ir::ValueId value) const;
  bool has_reductions() const;
  // Whether there are reductions or scans, which go from one element of a row to the next.
  bool walks_rows() const;
  // Whether the order of a row's elements matters: for scans, and for the places of extremes.
  bool is_ordered() const;
  // Whether all elements are read and stored at the place in the space itself, without checks and without
  // terms of places.
  bool is_plain() const;
  // The checks that run before anything is read or stored, in order.
  const std::vector<TermCheck>& checks() const { return checks_; }
  // Expressions of the graph's symbols that formulas read.
  const std::vector<Expr>& scalars() const { return scalars_; }

 private:
  friend class TermWriter;

  int find(ir::ValueId value, int part) const;  // a term, or kNone
  // Whether a term must be computed for each element of a row. `runs`: whether it changes along the row. In rows of one
  // element every term must, because the lanes are another dimension.
  bool changes_in_row(bool runs) const { return runs || row_length().is_int(1); }
  bool is_in_row(int place) const { return place + static_cast<int>(row_rank_) >= static_cast<int>(space_.size()); }

  std::vector<Expr> space_;
  std::vector<int> places_;  // per dimension as the nodes number it: its index in space_
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
  std::unordered_map<ir::ValueId, const ir::Node*> part_nodes_;  // by result: nodes that only concatenations read
};

// The iteration space of a node that has terms, of at least one dimension: its operands and results have a value per
// element or per row of it. nullopt for other nodes.
std::optional<std::vector<Expr>> space_of(const ir::Graph& graph, const ir::Node& node);

// The dimensions of its space that a node combines, ascending; empty if it combines none.
std::vector<int> walk_of(const ir::Graph& graph, const ir::Node& node);

// The loop nest of a node that runs by itself because nothing else can run it: its operands may have any strides, and
// it may be slow. nullopt if there is none.
struct LoneForm {
  std::vector<Expr> space;
  std::vector<int> walk;  // the dimensions that are combined, ascending
  int lanes = ir::kNone;  // see Terms
};
std::optional<LoneForm> lone_form(const ir::Graph& graph, const ir::Node& node);

// How a node that has terms touches its operands.
enum class TermKind : uint8_t {
  kElementwise,    // one element of each operand for each place
  kRows,           // whole rows, see walk_of()
  kConcatenation,  // operands side by side along the last dimension
  kGather,         // elements from any place: operands are loaded
  kWrite,          // elementwise, into an operand
  kScatter,        // into an operand, at places from index operands, which are loaded
  kWindow,         // elements at shifted or scaled places: the operand is loaded
};
// Returns nullopt for nodes without terms.
std::optional<TermKind> term_kind(const ir::Graph& graph, const ir::Node& node);

// Whether a node has terms only for hosts that do not have its operator.
bool is_left_to_host(const ir::Graph& graph, const ir::Node& node);

// Whether the value says where a node of kind kScatter writes.
bool is_index_operand(const ir::Node& node, ir::ValueId value);

// Whether loops can count with the sizes and strides of all tensors of the node: round() and trunc(), for one, are no
// operators of indices. Other nodes have no generated code.
bool has_index_sizes(const ir::Graph& graph, const ir::Node& node);

// Whether the node is a matrix product that generated code computes.
bool is_product(const ir::Graph& graph, const ir::Node& node);
// The two matrices that a product multiplies.
std::pair<ir::ValueId, ir::ValueId> matrices_of(const ir::Node& product);

// Which results generated code only moves: reports count their bytes as copied.

// Whether the data that `nodes`, which run as one task, store for value `id` was in memory before them. False for a
// value that they compute and rearrange before they store it. `id` is a result of one of them, or an operand that one
// of them writes.
bool is_copied(const ir::Graph& graph, ir::ValueId id, const std::vector<ir::NodeId>& nodes);

}  // namespace npugraph::lower
