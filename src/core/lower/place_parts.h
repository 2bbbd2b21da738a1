// SPDX-License-Identifier: Apache-2.0
// Which results are computed straight into a concatenation, and where in it.
//
//   %a = aten.neg(%x)                      kernel.unary_neg  x, [the first window of c]
//   %c = aten.cat([%a, %b], 1)      ->     kernel.copy       b, [the second window of c]
//
// A part is placed if its node writes into memory that it is given, no node touches that memory after the
// concatenation, and every view of the part is a window of the concatenation too. A placed part has the strides and the
// alignment of its window: if they differ from those of memory of its own, only exact operators (ops/node_facts.h) may
// touch it. Concatenations nest. A snapshot of a Graph, like AliasInfo. Immutable, safe to share. Linear in the graph.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/alias.h"
#include "ir/graph.h"

namespace npugraph::lower {

// Whether the node is a cat or a stack.
bool is_concatenation(const ir::Node& node);

// The place of a value in the memory of another value. Strides are in elements.
struct Window {
  Expr byte_offset;
  std::vector<Expr> strides;
};

struct Part {
  ir::ValueId value = ir::kNone;
  Window window;                   // in the memory of the concatenation
  const char* obstacle = nullptr;  // why it is not placed there; null if it is
};

// When a concatenation becomes copies of those of its parts that are not computed in place.
enum class Apart : uint8_t { kNever, kIfSomePartIsPlaced, kAlways };

class PartPlaces {
 public:
  // `writes_into`: whether a node becomes a task that writes its results into memory that it is given; `apart`: what
  // becomes of a concatenation.
  PartPlaces(const ir::Graph& graph, const ir::AliasInfo& aliases, std::function<bool(const ir::Node&)> writes_into,
             const std::function<Apart(ir::NodeId)>& apart);

  // The root of the concatenation in which the fresh memory `root` is placed; `root` itself if it is not placed.
  ir::ValueId host(ir::ValueId root) const;
  // The window of a value in its host. The place of the value in its root must be known (AliasInfo).
  Window window(ir::ValueId id) const;
  // The parts of a concatenation that is taken apart, at least one; else null. Empty ones may be missing.
  const std::vector<Part>* parts(ir::NodeId cat) const;

 private:
  struct Place {
    ir::ValueId host = ir::kNone;
    Part part;
  };

  void find_last_uses();
  void take_apart(ir::NodeId cat, bool always);
  std::optional<std::vector<Part>> list_parts(ir::NodeId cat) const;
  void place(ir::NodeId cat, Part& part);
  const char* find_obstacle(ir::NodeId cat, const Part& part) const;
  bool fits(const Part& part, ir::ValueId root) const;
  bool has_late_sizes(ir::ValueId id) const;

  const ir::Graph& graph_;
  const ir::AliasInfo& aliases_;
  const std::function<bool(const ir::Node&)> writes_into_;
  const ir::Uses uses_;
  std::vector<int32_t> last_use_;  // per root: position of its last use
  std::vector<std::string> late_symbols_;
  std::unordered_map<ir::ValueId, Place> places_;  // by root
  std::unordered_map<ir::NodeId, std::vector<Part>> parts_;
};

}  // namespace npugraph::lower
