// SPDX-License-Identifier: Apache-2.0
// Which results are computed straight into a concatenation, and where in it.
//
//   %a = aten.neg(%x)                      kernel.unary_neg  x, [the first window of c]
//   %c = aten.cat([%a, %b], 1)      ->     kernel.copy       b, [the second window of c]
//
// A part is placed when a node computes it into memory that it is given, nobody touches that memory after the concatenation,
// and every view of it is a window of the concatenation too. It gets the strides and the alignment of its window: where they
// differ from those of memory of its own, only exact operators (ops/exact.h) may touch it. Concatenations nest.
// A snapshot of a Graph, like AliasInfo. Immutable, safe to share. Linear in the graph.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/alias.h"
#include "ir/graph.h"

namespace npugraph::lower {

// Of cat and stack.
bool is_concatenation(const ir::Node& node);

// Where a value lies in the memory of another; strides in elements.
struct Window {
  Expr byte_offset;
  std::vector<Expr> strides;
};

struct Part {
  ir::ValueId value = ir::kNone;
  Window window;                   // in the memory of the concatenation
  const char* obstacle = nullptr;  // why it is not placed there
};

class PartPlaces {
 public:
  // `writes_into`: whether a node becomes a task that writes its results into memory that it is given; `is_generated`: whether a
  // concatenation is part of generated code, and stays in one piece.
  PartPlaces(const ir::Graph& graph, const ir::AliasInfo& aliases, std::function<bool(const ir::Node&)> writes_into,
             const std::function<bool(ir::NodeId)>& is_generated);

  // The root of the memory that the fresh memory `root` is part of: itself when it is placed nowhere.
  ir::ValueId host(ir::ValueId root) const;
  // Where a value with a known place (AliasInfo) lies in its host.
  Window window(ir::ValueId id) const;
  // The parts of a concatenation of which at least one is placed, without the empty ones; else null.
  const std::vector<Part>* parts(ir::NodeId cat) const;

 private:
  struct Place {
    ir::ValueId host = ir::kNone;
    Part part;
  };

  void find_last_uses();
  void take_apart(ir::NodeId cat);
  std::vector<Part> list_parts(ir::NodeId cat) const;
  void place(ir::NodeId cat, Part& part);
  const char* find_obstacle(ir::NodeId cat, const Part& part) const;
  bool fits(const Part& part, ir::ValueId root) const;
  bool has_late_sizes(ir::ValueId id) const;

  const ir::Graph& graph_;
  const ir::AliasInfo& aliases_;
  const std::function<bool(const ir::Node&)> writes_into_;
  const ir::Uses uses_;
  std::vector<int32_t> last_use_;  // per root: position
  std::vector<std::string> late_symbols_;
  std::unordered_map<ir::ValueId, Place> places_;  // by root
  std::unordered_map<ir::NodeId, std::vector<Part>> parts_;
};

}  // namespace npugraph::lower
