// SPDX-License-Identifier: Apache-2.0
// The operators of Ascend IR: names of inputs, outputs and attributes. operators.txt has one line for each; users add
// more.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace npugraph::ge {

enum class Arity : uint8_t { kRequired, kOptional, kDynamic };  // dynamic: any number of tensors, x0, x1, ...

// Kinds of element types, each wider than those before it.
enum class TypeKind : uint8_t { kBool, kInteger, kFloat, kComplex };

struct IrTensor {
  std::string name;
  Arity arity = Arity::kRequired;
  std::string types;                     // as the IR states them: "{float16,float}", "BasicType"
  TypeKind widest = TypeKind::kComplex;  // kind among these types

  // Whether an element type is of no wider kind than those that the IR states. The engine computes with more types than
  // an npu, but numbers are no places, and places no truth values.
  bool allows(DType dtype) const;
};

enum class IrAttrKind : uint8_t {
  kInt,
  kFloat,
  kBool,
  kString,
  kType,
  kTensor,
  kListInt,
  kListFloat,
  kListBool,
  kListString,
  kListType,
  kListListInt,
};

struct IrAttr {
  std::string name;
  IrAttrKind kind = IrAttrKind::kInt;
  bool required = false;
  std::string default_text;  // as the IR states it: "1e-5", "{1,1,1,1}", "\"NHWC\""
};

struct IrOperator {
  std::string name;
  std::string text;  // its line in operators.txt
  std::vector<IrTensor> inputs;
  std::vector<IrTensor> outputs;
  std::vector<IrAttr> attrs;
};

// The operator of that name; null if there is none. The result lives as long as the process. Thread-safe.
const IrOperator* find_operator(std::string_view name);
// Adds an operator of the user, in the form that parse_operator reads. Does nothing if it is there already. UserError
// if there is another one of that name. Thread-safe.
void add_operator(std::string_view line);
// All names, sorted.
std::vector<std::string> operator_names();

// Parses a line of operators.txt: Name(input:types, optional?:types, dynamic*:types) -> (outputs)
// [attribute:Kind=default]. UserError on malformed text.
IrOperator parse_operator(std::string_view line);

// The name of a kind in operators.txt: "ListInt".
std::string_view name_of(IrAttrKind kind);

}  // namespace npugraph::ge
