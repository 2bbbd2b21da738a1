// SPDX-License-Identifier: Apache-2.0
// Arguments of operators: one typed variant, shared by graph nodes (where a TensorRef is a value) and Program tasks
// (where it is an operand index).
#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/expr.h"

namespace npugraph {

struct None {
  bool operator==(const None&) const = default;
};

// Refers to a tensor by number; kAbsent stands for None in a list of optional tensors.
struct TensorRef {
  static constexpr int32_t kAbsent = -1;
  int32_t id = kAbsent;
  bool operator==(const TensorRef&) const = default;
};

enum class Layout : uint8_t { kStrided, kSparse, kSparseCsr, kSparseCsc, kSparseBsr, kSparseBsc, kMkldnn, kJagged };
enum class MemoryFormat : uint8_t { kContiguous, kPreserve, kChannelsLast, kChannelsLast3d };

struct Device {
  std::string type = "cpu";
  int32_t index = -1;  // -1: none given
  bool operator==(const Device&) const = default;
};

// Scalars and symbolic scalars are Expr of kind int, float or bool.
using Attr = std::variant<None, TensorRef, std::vector<TensorRef>, Expr, std::vector<Expr>, std::complex<double>,
                          std::string, std::vector<std::string>, DType, Layout, MemoryFormat, Device>;

// Text form: none, %name, [%a, none], 3, 1.5, true, [s0, 4], complex(1.0, 2.0), "text", f32, layout.strided,
// memory_format.preserve, device("cpu", 0). `tensor_name` translates a present TensorRef to its name without the %.
// Round-trips through parse_attr (tensor/lexer.h), with three rules: an empty list of expressions is [], of tensors
// tensors[], of strings strings[]; an expression that starts with a word of this form stands in parentheses (the symbol
// u8 is (u8), the element type u8); an absent single TensorRef reads back as None.
std::string to_text(const Attr& attr, const std::function<std::string(TensorRef)>& tensor_name);

// Calls `fn` for every present TensorRef in `attr`, in order; the mutable form may renumber.
void for_each_tensor(const Attr& attr, const std::function<void(TensorRef)>& fn);
void for_each_tensor(Attr& attr, const std::function<void(TensorRef&)>& fn);
// Calls `fn` for every Expr in `attr`, in order.
void for_each_expr(const Attr& attr, const std::function<void(const Expr&)>& fn);
void for_each_expr(Attr& attr, const std::function<void(Expr&)>& fn);

}  // namespace npugraph
