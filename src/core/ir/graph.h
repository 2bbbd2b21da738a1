// SPDX-License-Identifier: Apache-2.0
// The Graph: SSA over tensors, in a fixed order, sizes symbolic.
//
// Semantics that every pass may rely on and must keep:
// - Nodes run as if one after the other in `order`. A value is defined once, before its uses.
// - A tensor value has the exact strides of eager; a compiled function returns eager's strides.
// - Views are nodes: the result of an operator with Trait::kView shares memory with its first operand, and
//   `View::offset` places it. All other results of functional operators are fresh memory that overlaps nothing.
// - Mutation is explicit: an operator with Trait::kMutates writes the operands that its schema marks; a result with the
//   alias letter of a written argument *is* that argument afterwards (same memory, same view).
// - Scalars are expressions, not values. A symbol comes from the graph's inputs or is defined by a node (`item`,
//   `nonzero`).
// - Random and side-effecting nodes keep their order among themselves.
// - In a graph of several streams, a node may run in parallel with the nodes of sections that its own section (below)
//   does not come after, whatever `order` says: sections must order the accesses to values that both use. Passes then
//   keep each node in its section.
//
// Not thread-safe; a Graph belongs to one thread at a time.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ir/op.h"
#include "tensor/attr.h"
#include "tensor/core_limits.h"

namespace npugraph::ir {

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr int32_t kNone = -1;

// A strided tensor. Sizes and strides in elements.
struct TensorType {
  DType dtype = DType::kF32;
  std::vector<Expr> sizes;
  std::vector<Expr> strides;
  Device device;
  bool operator==(const TensorType&) const = default;
};

// A value that is not strided memory (sparse, quantised, mkldnn, nested): tasks pass it on unchanged. `what` is a
// description for people ("sparse_coo f32[4, 4]").
struct OpaqueType {
  std::string what;
  bool operator==(const OpaqueType&) const = default;
};

using Type = std::variant<TensorType, OpaqueType>;

// The place in the user's program that a node comes from. `node` is the FX node, `source` "file.py:12 in forward".
struct Origin {
  std::string node;
  std::string source;
};

struct Value {
  Type type;
  std::string name;    // unique in the graph; change it with Graph::rename
  NodeId def = kNone;  // kNone: an input or a constant
  int32_t result = 0;  // which result of `def`

  bool is_tensor() const { return std::holds_alternative<TensorType>(type); }
  const TensorType& tensor() const { return std::get<TensorType>(type); }
};

// Place of a view in its base: the exact distance from the first element of the base, which may be a view itself. In
// elements of the result's dtype.
struct View {
  Expr offset;
  bool operator==(const View&) const = default;
};

// A symbol that a node defines: the size of result `result` in dimension `dim`, or (dim kNone) the scalar that the
// schema returns at position `result`.
struct SymbolDef {
  std::string symbol;
  ScalarKind kind = ScalarKind::kInt;
  int32_t result = 0;
  int32_t dim = kNone;
  bool operator==(const SymbolDef&) const = default;
};

struct Node {
  const Op* op = nullptr;
  // One per schema argument, defaults filled in; TensorRef ids are ValueIds. A scalar where the schema says Tensor is a
  // number of the user's program ("aten.mul.Tensor(%x, 0.5)") and is promoted like a Python number.
  std::vector<Attr> args;
  // Tensor and opaque results: one per return of the schema, or per tensor of a returned list. kNone for undefined
  // results and for numbers; numbers at the end may be left out.
  std::vector<ValueId> results;
  std::vector<View> views;  // one per result when op is a view
  std::vector<SymbolDef> defines;
  int32_t callable = kNone;  // Trait::kOpaque: which callable of the host
  int32_t section = 0;       // Graph::sections
  Origin origin;
  bool dead = false;
};

enum class InputKind : uint8_t { kUser, kParameter, kBuffer, kStatic };

// A stretch of one stream between two events. Its nodes run in the order of the graph. The sections of one stream run
// one after the other, in the order of their numbers. A section of another stream comes before only if `after` leads to
// it, directly or through other sections. The graph begins before all sections and ends when all are done.
struct Section {
  int32_t stream = 0;
  std::vector<int32_t> after;  // earlier sections
  CoreLimits limits;           // for each of its tasks
  bool operator==(const Section&) const = default;
};

// A graph input: a tensor value, or a scalar.
struct Input {
  ValueId value = kNone;  // kNone for a scalar
  Expr scalar;  // a symbol, the constant that it was specialised to, or an expression of other inputs' symbols
  InputKind kind = InputKind::kUser;
  std::string source;  // Dynamo's source, "L['x']"
  // The storage offset that a tensor must have, in elements, because nodes address the storage itself (as_strided).
  std::optional<Expr> storage_offset;
  static constexpr int64_t kNowhere = int64_t{1} << 40;  // a storage offset that no tensor has
};

// Immutable bytes or a host object behind a constant. `owner` keeps `data` alive; `data` is null for an opaque
// constant, whose owner is then the host's object itself.
struct ConstantData {
  std::shared_ptr<void> owner;
  const void* data = nullptr;
  int64_t bytes = 0;
};

struct Constant {
  ValueId value = kNone;
  std::shared_ptr<const ConstantData> data;
  bool derived = false;  // computed when the graph was compiled, counted in derived_constant_bytes
};

// One output of the graph: a value, a scalar expression, or nothing.
using Output = std::variant<None, TensorRef, Expr>;

// A symbol of the graph, from its inputs or defined by a node.
struct Symbol {
  std::string name;
  ScalarKind kind = ScalarKind::kInt;
  int64_t min = INT64_MIN;  // inclusive bounds that the front end guards
  int64_t max = INT64_MAX;
};

class Graph {
 public:
  std::string name = "graph";
  std::vector<Symbol> symbols;
  std::vector<Input> inputs;
  std::vector<Constant> constants;
  std::vector<Output> outputs;
  std::vector<Section> sections = {Section{}};

  Graph() = default;
  Graph(const Graph&) = default;  // a deep copy; rows, constant bytes and expressions are shared
  Graph& operator=(const Graph&) = default;
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  // Values and nodes. Ids stay valid for the life of the graph, also after erase().
  const Value& value(ValueId id) const { return values_[id]; }
  Value& value(ValueId id) { return values_[id]; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  Node& node(NodeId id) { return nodes_[id]; }
  int32_t num_values() const { return static_cast<int32_t>(values_.size()); }
  int32_t num_nodes() const { return static_cast<int32_t>(nodes_.size()); }
  // Live and dead nodes in program order; skip `dead` ones while a pass runs, the driver compacts afterwards.
  const std::vector<NodeId>& order() const { return order_; }

  // Adds a value without definition, for inputs and constants. An empty or taken name is made unique; characters
  // outside [A-Za-z0-9_.] become '_'.
  ValueId add_value(Type type, std::string_view name);
  // Gives a value another name, by the same rules.
  void rename(ValueId id, std::string_view name);
  // Adds a node with results of these types at the end, or before `before` in the order. One result is called `name`,
  // several `name`_0, `name`_1, ... When `node.results` is not empty, it says which results are undefined: those that
  // are kNone; the others are filled in, in order.
  NodeId append(Node node, std::vector<Type> result_types, std::string_view name);
  NodeId insert_before(NodeId before, Node node, std::vector<Type> result_types, std::string_view name);
  // Marks a node dead. Its results must have no uses left.
  void erase(NodeId id);
  // Drops dead nodes from the order.
  void compact();
  // Puts live nodes into this order, which must name each live node once and keep definitions before uses.
  void reorder(std::vector<NodeId> order);

  // Replaces every use of `from` (node operands and outputs) by `to`. Types must agree.
  void replace_uses(ValueId from, ValueId to);
  // The same for many values in one walk: value v becomes replacement[v], kNone leaves it; chains are followed.
  void replace_uses(const std::vector<ValueId>& replacement);

  bool is_input(ValueId id) const;
  bool is_constant(ValueId id) const;
  // Whether sections are of different streams.
  bool has_streams() const;

 private:
  std::string unique_name(std::string_view wish);
  NodeId add_node(Node node, std::vector<Type> result_types, std::string_view name);
  std::deque<Value> values_;
  std::deque<Node> nodes_;
  std::vector<NodeId> order_;
  std::unordered_map<std::string, int32_t>
      names_;  // names in use, each with the suffix to try first for the next value of this name
};

// The results of a node, by the rule of its operator.
struct Inferred {
  std::vector<std::optional<Type>> types;  // nullopt for undefined results
  std::vector<View> views;                 // only for view operators
};

// Operand values of a node, in argument order; absent optional tensors are left out. A value used twice occurs twice.
std::vector<ValueId> operands(const Node& node);
// Operand values that the node writes, by its schema.
std::vector<ValueId> written_operands(const Node& node);
// For each result: the operand that it *is* after a mutation (alias letter of a written argument), or kNone.
std::vector<ValueId> returned_operands(const Node& node);
// For each result: the operand whose memory the schema lets it share without writing it ("(a)", not "(a!)"), or kNone.
std::vector<ValueId> shared_operands(const Node& node);
// How many results a node of this schema may have.
struct ResultCount {
  size_t fewest = 0;
  size_t most = 0;
};
ResultCount result_count(const Schema& schema);
// For each result: the index of its return in the schema. Lists share the results that the single returns leave.
std::vector<int32_t> returns_of_results(const Schema& schema, size_t num_results);

// The users of every value. A snapshot: rebuild after changing the graph.
struct Uses {
  std::vector<std::vector<NodeId>> users;  // per value: using nodes in program order, each once
  std::vector<int32_t> output_uses;        // per value: how often the graph returns it
  std::vector<int32_t> position;           // per node: index in order, -1 when dead
};
Uses find_uses(const Graph& graph);

// The order that streams and events establish between the sections of a graph.

class SectionOrder {
 public:
  // Requires that `after` names earlier sections only.
  explicit SectionOrder(const std::vector<Section>& sections);

  // Whether all of `a` is done when `b` begins.
  bool precedes(int32_t a, int32_t b) const { return before_[b][a]; }
  // The same, or `a` is `b`.
  bool reaches(int32_t a, int32_t b) const { return a == b || precedes(a, b); }

 private:
  std::vector<std::vector<bool>> before_;  // per section: whether each other one comes before it
};

}  // namespace npugraph::ir
