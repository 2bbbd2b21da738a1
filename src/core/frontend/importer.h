// SPDX-License-Identifier: Apache-2.0
// Neutral description of an FX graph -> Graph. The caller walks FX and describes one node at a time; nothing
// here knows torch.
//
// Decides what the front end leaves open: which results are views and at which offset (from the storages and offsets
// that the front end computed), and which inputs must keep their place in their storage. Replaces lazy conjugates and
// negatives by operators that compute them. A node that cannot be expressed is refused with a reason; the caller then
// describes it again as a Python callable, so that one odd node never costs the whole graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace npugraph::frontend {

// The facts that the front end computed for a tensor: its type, its storage and its place in the storage.
struct TensorDescription {
  ir::Type type;
  Expr storage_offset;   // elements, of the tensor's own dtype
  uint64_t storage = 0;  // equal for tensors of one storage; 0 for opaque values
};

struct NodeDescription {
  std::string name;                                       // name of the FX node
  std::string source;                                     // "file.py:12 in forward"
  std::string schema;                                     // "aten::add.Tensor(Tensor self, ...) -> Tensor"
  ir::Traits traits = 0;                                  // beyond those of the schema, from the operator's tags
  std::vector<Attr> args;                                 // one per schema argument; TensorRefs are values of the graph
  std::vector<std::optional<TensorDescription>> results;  // nullopt where the operator returns None
  std::vector<ir::SymbolDef> defines;
  int32_t callable = ir::kNone;  // index of the callable of a Python node; `schema` names it, `args` are its operands
  bool counts_from_storage = false;  // whether a Python node may use offsets into its operands' storages
  int32_t section = 0;               // index in Graph::sections
};

class Importer {
 public:
  using Values = std::optional<std::vector<ir::ValueId>>;

  Importer(std::string name, ir::OpResolver& ops);

  void add_symbol(ir::Symbol symbol);
  // Replaces the one section that every graph has by default.
  void set_sections(std::vector<ir::Section> sections);
  // The row of an operator, from the table or made from its schema.
  const ir::Op& op_for(const std::string& schema, ir::Traits traits);
  ir::ValueId add_input(const TensorDescription& tensor, std::string name, ir::InputKind kind, std::string source);
  void add_scalar_input(Expr scalar, std::string source);
  ir::ValueId add_constant(const TensorDescription& tensor, std::string name,
                           std::shared_ptr<const ir::ConstantData> data, bool derived = false);
  // Returns the values of the node's results in order, kNone for undefined ones. If the node is refused, returns
  // nullopt and leaves the graph unchanged; refusal() says why.
  Values add_node(const NodeDescription& node);
  const std::string& refusal() const { return refusal_; }
  void add_output(ir::Output output);
  // Whether some input must lie at a certain place in its storage (ir::Input::storage_offset). Call it before finish().
  bool names_places() const;

  // Hands the graph over. InternalError when it does not verify.
  ir::Graph finish();

 private:
  struct Place {
    uint64_t storage = 0;
    Expr byte_offset;
    int32_t input = ir::kNone;  // the input whose memory it is in; kNone for all but inputs and their views
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
