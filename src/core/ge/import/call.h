// SPDX-License-Identifier: Apache-2.0
// One operator of an IR graph, as the rules see it: operands and attributes by the names of Ascend IR.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ge/import/context.h"
#include "ge/import/operand.h"
#include "ge/ir/registry.h"
#include "ge/model.h"

namespace npugraph::ge {

class Call {
 public:
  // `operands` has one entry per data input of `def`, null for an absent one. UserError if the operator lacks a
  // required input or attribute, or has one that its IR does not know.
  Call(Context& context, const OpDef& def, const IrOperator& ir, std::vector<Operand*> operands);

  Context& context() const { return context_; }
  const OpDef& def() const { return def_; }

  // Inputs. `name` must be a name of the IR operator.
  bool has(std::string_view name) const { return operand(name) != nullptr; }
  // The tensor itself; requires has().
  ir::ValueId value(std::string_view name) const;
  // The same as an argument of the operator table; None if the input is absent.
  Attr argument(std::string_view name) const;
  // The tensors of a dynamic input.
  std::vector<Operand*> list(std::string_view name) const;
  // The elements of an integer input. UserError if they are not known as expressions.
  const Numbers& numbers(std::string_view name) const;
  const Numbers* find_numbers(std::string_view name) const;
  // The only element of an input. UserError if it has more or none, or if it is not known as an expression.
  const Expr& scalar(std::string_view name) const;
  // The same as a constant integer.
  int64_t integer(std::string_view name) const;
  // All elements of an integer input as constants.
  std::vector<int64_t> integers(std::string_view name) const;
  // An input of type string. UserError if it is a constant.
  const Text& text(std::string_view name) const;

  // Attributes, or the defaults of the IR.
  int64_t attr_int(std::string_view name) const;
  double attr_float(std::string_view name) const;
  bool attr_bool(std::string_view name) const;
  std::string attr_string(std::string_view name) const;
  std::vector<int64_t> attr_ints(std::string_view name) const;

  // The element type that a descriptor of an output states; nullopt if it states none.
  std::optional<DType> output_type(size_t output) const;

  // UserError; the import says of which operator.
  [[noreturn]] static void fail(const std::string& reason);

 private:
  struct Place {
    size_t begin = 0, size = 0;  // in operands_
  };

  void place_operands();
  void check_types() const;
  const Operand* operand(std::string_view name) const;
  size_t input_index(std::string_view name) const;
  const IrAttr& attr(std::string_view name) const;
  template <typename T>
  const T* stated(std::string_view name) const;

  Context& context_;
  const OpDef& def_;
  const IrOperator& ir_;
  std::vector<Operand*> operands_;
  std::vector<Place> places_;  // per input of the IR operator
};

}  // namespace npugraph::ge
