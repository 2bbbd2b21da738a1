// SPDX-License-Identifier: Apache-2.0
// Elements of a tensor by indices: gathers, in some of its dimensions, and scatters, in one. Internal to lower/.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "lower/terms/writer.h"
#include "tensor/expr.h"

namespace npugraph::lower {

struct Gather {
  struct Index {
    ir::ValueId value = ir::kNone;
    size_t dim = 0;
    std::vector<int> dims;  // per dimension of the index: the one of the selected elements whose place it takes
    std::string message;
  };
  ir::ValueId self = ir::kNone;
  std::vector<int> dims;  // per dimension of `self`: the one of the selected elements whose place it takes
  std::vector<Index> indices;
  bool from_end = false;
  // The dimensions of the indices, broadcast together, among those of the selected elements.
  size_t first = 0, index_rank = 0;
};

// What a node reads or writes by index; nullopt if it is none of the operators that do, or if loops cannot.
std::optional<Gather> find_gather(const ir::Graph& graph, const ir::Node& node);
// The sizes of the elements that the indices select.
std::vector<Expr> selected_sizes(const ir::Graph& graph, const Gather& gather);
// Terms of the checked places in the dimensions of the indices.
std::vector<TermAccess::Index> checked_places(TermWriter& w, const ir::Graph& graph, const Gather& gather);
// Whether the argument `values` of the node has the type of self and can be broadcast to what the indices select.
bool can_put(const ir::Graph& graph, const ir::Node& node, const Gather& gather);

// Elements of a source, or a number, that are written at places of one dimension.

// (self, dim, index, source or number): the order of duplicates does not matter.
struct Scatter {
  size_t dim = 0;
  bool adds = false;
  ir::ValueId index = ir::kNone;
  ir::ValueId source = ir::kNone;  // kNone: `number`
  std::optional<Scalar> number;
};

// What a node scatters; nullopt if loops cannot. Index and source have as many dimensions as self; the index holds i32
// or i64, and the source elements of the type of self.
std::optional<Scatter> find_scatter(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::lower
