// SPDX-License-Identifier: Apache-2.0
// Facts about an operator. They are stored once, in a row of the table in ops/; graphs refer to rows.
//
// Operator schemas are those of torch ("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"); the
// name of a row is the schema's with a dot: "aten.add.Tensor", and "aten.mm" for a default overload (no ".default").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/attr.h"

namespace npugraph::ir {

// Properties that passes ask for. An operator outside of the table gets kMayThrow, and what its schema and tags prove.
enum class Trait : uint32_t {
  kElementwise = 1u << 0,  // each result element depends on its place and the broadcast-corresponding elements only
  kReduction = 1u << 1,
  kView = 1u << 2,         // every result is a strided view of the first operand; Node::views says which
  kProduct = 1u << 3,      // matrix products and convolutions
  kRandom = 1u << 4,       // draws from a generator: runs in program order, never merged, folded or removed
  kSideEffect = 1u << 5,   // has an effect besides its results (assert, print): kept, and kept in order
  kMutates = 1u << 6,      // writes an argument; derived from the schema
  kCommutative = 1u << 7,  // the first two operands may be exchanged
  kMayThrow = 1u << 8,     // may raise for some values of its inputs (index out of range, singular matrix)
  kCopyLike = 1u << 9,   // moves data without computing: copy_, clone, _to_copy, cat, index_copy of whole buffers, ...
  kOpaque = 1u << 10,    // not an ATen operator: a Python callable (higher-order operators, Python custom operators)
  kCreation = 1u << 11,  // a fresh tensor from sizes and scalars only
  kUninitialised = 1u << 12,  // a fresh tensor with undefined elements
  kExact = 1u << 13,          // rounds correctly or not at all, and is cheap: ask ops::is_exact()
  kBeginsScope = 1u << 14,    // marks the beginning of a super kernel scope, named by the first argument
  kEndsScope = 1u << 15,      // marks the end of a super kernel scope
  kCollective = 1u << 16,     // exchanges data with other processes: one task begins it, another one waits for it
  // Not an operator of torch itself: its kernel may keep its tensors, call Python, and differ from device to device.
  kForeign = 1u << 17,
  kNested = 1u << 18,  // opaque: runs graphs of its own, depending on values that only the run knows
};

using Traits = uint32_t;
constexpr Traits operator|(Trait a, Trait b) { return static_cast<Traits>(a) | static_cast<Traits>(b); }
constexpr Traits operator|(Traits a, Trait b) { return a | static_cast<Traits>(b); }
constexpr bool has(Traits traits, Trait trait) { return (traits & static_cast<Traits>(trait)) != 0; }

struct SchemaArg {
  std::string name;
  std::string
      type;  // "Tensor", "Tensor?", "Tensor[]", "Tensor?[]", "SymInt", "SymInt[2]", "Scalar", "ScalarType?", ...
  std::string alias;      // alias set letters ("a"), empty when none
  bool is_write = false;  // "(a!)"
  bool keyword_only = false;
  bool has_default = false;
  Attr default_value;  // meaningful when has_default
};

struct SchemaReturn {
  std::string type;
  std::string alias;
  bool is_write = false;
};

struct Schema {
  std::string name;  // "aten.add.Tensor"
  std::string text;  // as given
  std::vector<SchemaArg> args;
  std::vector<SchemaReturn> returns;
};

// One operator. Rows are immutable and live as long as the process; equal operators are the same row.
struct Op {
  std::string name;  // "aten.add.Tensor"
  Schema schema;
  Traits traits = 0;
  // The operator that writes the result into the first argument ("aten.add_.Tensor"). For a scatter: the view of the
  // first argument to which it copies "src" ("aten.slice.Tensor"). Empty if there is none.
  std::string inplace_twin;
  int32_t id = -1;  // its row in the table; -1: made from a schema that is not in the table

  bool in_table() const { return id >= 0; }
  bool is(Trait trait) const { return has(traits, trait); }
};

class Graph;
struct Node;
struct Inferred;

// Finds the rows for the names in the text form; ops/ implements it.
class OpResolver {
 public:
  virtual ~OpResolver() = default;
  // The row of a name, or null when it is unknown. "aten.t.default" finds "aten.t".
  virtual const Op* find(std::string_view name) const = 0;
  // The table's row for a schema of the table; for any other schema a row that is made on first use, with the traits
  // `extra` in addition to those of the schema.
  virtual const Op* intern(std::string_view schema, Traits extra) = 0;
  // The results of a node that has none yet, by the rule of its row. nullopt if it has no rule, or the rule cannot
  // infer them. UserError if the arguments do not fit.
  virtual std::optional<Inferred> infer(const Graph& graph, const Node& node) const = 0;
};

}  // namespace npugraph::ir
