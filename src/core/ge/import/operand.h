// SPDX-License-Identifier: Apache-2.0
// A tensor of an IR graph during its import.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ge/model.h"
#include "ir/graph.h"
#include "tensor/dtype.h"
#include "tensor/expr.h"

namespace npugraph::ge {

// A small tensor whose elements are expressions: a shape, an axis, a number of the user's program.
struct Numbers {
  DType dtype = DType::kI64;
  std::vector<int64_t> dims;   // constant sizes; none for a scalar
  std::vector<Expr> elements;  // in row-major order

  bool is_scalar() const { return dims.empty(); }
};

// Larger tensors are not followed as expressions.
inline constexpr int64_t kMostNumbers = 64;

// A text in which the elements of a tensor stand for each placeholder: `summarize` of them at both ends of a dimension,
// all for -1.
struct Text {
  std::string format;
  std::string placeholder;
  int64_t summarize = 0;
  std::vector<TensorRef> tensors;
};

// What the rules know of a tensor. At least one member is set; those that are set have the same elements. None is set
// for a result that nothing computes.
struct Operand {
  ir::ValueId value = ir::kNone;
  std::optional<Numbers> numbers;
  const TensorValue* constant = nullptr;  // bytes of the model
  DType dtype = DType::kF32;              // of the constant
  std::shared_ptr<const Text> text;       // for a tensor of type string, which the Graph does not have

  bool is_set() const { return value != ir::kNone || numbers || constant != nullptr || text != nullptr; }

  static Operand of(ir::ValueId value) { return {.value = value}; }
};

// The number of the fewest decimal digits that rounds to `value`. The model has 1e-5 as the float next to it; the
// user's program had the double 1e-5.
double decimal(float value);

// Little-endian elements of a type that is not complex, each as a constant.
std::vector<Expr> read_elements(std::string_view bytes, DType dtype);

}  // namespace npugraph::ge
