// SPDX-License-Identifier: Apache-2.0
// The Graph that an import builds, and what the rules of operators do to it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ge/import/operand.h"
#include "ir/graph.h"
#include "tensor/attr.h"

namespace npugraph::ge {

// Unknown sizes that turned out to be equal to others: symbol -> expression.
using Substitutions = std::map<std::string, Expr, std::less<>>;

// Inclusive bounds of sizes by the names of their symbols. A call with other sizes is refused.
struct Bounds {
  int64_t min = 0;
  int64_t max = INT64_MAX;
};
using SizeBounds = std::map<std::string, Bounds, std::less<>>;

// Two sizes have to be equal, which the Graph so far does not express. The import begins again with `solved`.
struct SizesMustBeEqual {
  std::string symbol;
  Expr solved;
};

// An unknown size has to be at most `max`. The import begins again with this bound.
struct SizeMustBeAtMost {
  std::string symbol;
  int64_t max;
};

class Context {
 public:
  // Tensors lie on `device`. `owner` keeps the bytes of the model's constants alive.
  Context(const Substitutions& substitutions, const SizeBounds& bounds, Device device,
          std::shared_ptr<const void> owner)
      : substitutions_(substitutions), bounds_(bounds), device_(std::move(device)), owner_(std::move(owner)) {}

  ir::Graph& graph() { return graph_; }
  const ir::TensorType& type(ir::ValueId value) const { return graph_.value(value).tensor(); }
  const Device& device() const { return device_; }
  const std::vector<Expr>& sizes(ir::ValueId value) const { return type(value).sizes; }

  // A new symbol for an unknown size, or the expression that is known to equal it.
  Expr new_size();
  // The text form of a size; its symbols are sizes of inputs by these names. UserError on malformed text.
  Expr parse_size(std::string_view text);
  // Demands equal sizes. UserError if they certainly differ, or if the demand cannot be expressed by sizes of inputs.
  // Throws SizesMustBeEqual if an unknown size has to be replaced, SizeMustBeAtMost if it has to have a bound.
  void require_equal(const Expr& given_a, const Expr& given_b);
  // Demands that two shapes can be broadcast together. A size that is not the constant 1 is never broadcast.
  void require_broadcast(const std::vector<Expr>& a, const std::vector<Expr>& b);

  // Adds a node of the operator table. Types and views follow from its row; a result that its arguments do not ask for
  // is no tensor. Arguments may be left out at the end, where the schema has defaults.
  std::vector<ir::ValueId> add_all(const ir::Op& op, std::vector<Attr> args);
  ir::ValueId add(const ir::Op& op, std::vector<Attr> args);
  // The same for an operator without a rule, with these types of results.
  std::vector<ir::ValueId> add_typed(const ir::Op& op, std::vector<Attr> args, std::vector<ir::Type> types);

  // The names of nodes that are added from now on, and the line of the user's program that they come from.
  void set_origin(std::string name, std::string source);

  // A tensor of the model. Small ones are numbers, too: integers, and scalars of all types.
  Operand constant(const TensorValue& tensor, DType dtype);
  DType type_of(const Operand& operand) const;
  // The tensor itself. Numbers become a tensor on the device, other constants one of the Graph. UserError for a text.
  ir::ValueId value_of(Operand& operand);

 private:
  ir::ValueId from_numbers(const Numbers& numbers);
  ir::ValueId from_constant(const TensorValue& tensor, DType dtype);

  Expr size_symbol(const std::string& name);
  ir::Symbol& declared(const std::string& name);

  const Substitutions& substitutions_;
  const SizeBounds& bounds_;
  Device device_;
  std::shared_ptr<const void> owner_;
  ir::Graph graph_;
  ir::Origin origin_;
  int64_t num_sizes_ = 0;
};

}  // namespace npugraph::ge
