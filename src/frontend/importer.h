// SPDX-License-Identifier: Apache-2.0
// Neutral description of an FX graph -> Graph. The caller walks FX and describes one node at a time; nothing here knows torch.
//
// Handles what the front end leaves open: which results are views and where they lie (from the storages and offsets that the
// front end computed), which inputs must lie where they lay, lazy conjugates and negatives made real, defaults filled in. A node that cannot be expressed is refused
// with a reason; the caller then describes it again as a Python callable, so that one odd node never costs the whole graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace npugraph::frontend {

// What the front end computed for a tensor: its type, and where it lies in which storage.
struct TensorDescription {
  ir::Type type;
  Expr storage_offset;   // elements, of the tensor's own dtype
  uint64_t storage = 0;  // equal for tensors of one storage; 0 for opaque values
};

struct NodeDescription {
  std::string name;                                       // of the FX node
  std::string source;                                     // "file.py:12 in forward"
  std::string schema;                                     // "aten::add.Tensor(Tensor self, ...) -> Tensor"
  ir::Traits traits = 0;                                  // beyond those of the schema, from the operator's tags
  std::vector<Attr> args;                                 // one per schema argument; TensorRefs are values of the graph
  std::vector<std::optional<TensorDescription>> results;  // nothing where the operator returns None
  std::vector<ir::SymbolDef> defines;
  int32_t callable = ir::kNone;      // of a Python node; then `schema` names it and args are its operands
  bool counts_from_storage = false;  // a Python node that may name places of its operands' storages
  int32_t section = 0;               // of the graph
};

class Importer {
 public:
  using Values = std::optional<std::vector<ir::ValueId>>;

  Importer(std::string name, ir::OpResolver& ops);

  void add_symbol(ir::Symbol symbol);
  // In place of the one section that every graph has.
  void set_sections(std::vector<ir::Section> sections);
  // The row of an operator: that of the table, or one made from its schema.
  const ir::Op& op_for(const std::string& schema, ir::Traits traits);
  ir::ValueId add_input(const TensorDescription& tensor, std::string name, ir::InputKind kind, std::string source);
  void add_scalar_input(Expr scalar, std::string source);
  ir::ValueId add_constant(const TensorDescription& tensor, std::string name,
                           std::shared_ptr<const ir::ConstantData> data, bool derived = false);
  // The values of the node's results in order, kNone where there is none. Or nothing: `refusal()` says why, and the graph is
  // as it was.
  Values add_node(const NodeDescription& node);
  const std::string& refusal() const { return refusal_; }
  void add_output(ir::Output output);
  // Whether some input must lie at a certain place in its storage (ir::Input::storage_offset). Before finish().
  bool names_places() const;

  // Hands the graph over. InternalError when it does not verify.
  ir::Graph finish();

 private:
  struct Place {
    uint64_t storage = 0;
    Expr byte_offset;
    int32_t input = ir::kNone;  // which input's memory it is; of inputs and of views of them
  };
  bool place_views(const NodeDescription& node, const ir::Op& op, ir::Node& built);
  Values add_shared(const NodeDescription& node, const ir::Node& built);
  Values append(ir::Node built, const NodeDescription& node);
  Expr offset_in(const TensorDescription& result, const Place& base) const;
  void note_named_place(const ir::Node& node);
  void require_start_of_storage(const ir::Node& node);
  void remember(ir::ValueId id, const TensorDescription& tensor, int32_t input);

  ir::Graph graph_;
  ir::OpResolver& ops_;
  std::vector<Place> places_;  // per value
  std::string refusal_;
};

}  // namespace npugraph::frontend
