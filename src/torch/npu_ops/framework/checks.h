// SPDX-License-Identifier: Apache-2.0
// What operators of this folder ask of their arguments. `op` is the operator's name without its namespace; `name` that of the
// argument in the schema. All raise RuntimeError (c10::Error) that says what was given and what is allowed.
#pragma once

#include <initializer_list>
#include <optional>

#include <ATen/ATen.h>

namespace npugraph::npu_ops {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// float32, float16 or bfloat16.
void check_floating(const char* op, const char* name, const Tensor& tensor);
void check_type(const char* op, const char* name, const Tensor& tensor, std::initializer_list<at::ScalarType> allowed);
void check_dims(const char* op, const char* name, const Tensor& tensor, int64_t at_least, int64_t at_most);
void check_same_shape(const char* op, const char* name, const Tensor& tensor, const char* like_name,
                      const Tensor& like);
// `tensor` has the shape of the last dimensions of `of`.
void check_last_dims(const char* op, const char* name, const Tensor& tensor, const char* of_name, const Tensor& of);

// `value` of an argument that stands for one of several ways.
void check_choice(const char* op, const char* name, int64_t value, std::initializer_list<int64_t> allowed);

// The element type that an `int dtype` argument stands for: a torch.dtype, or 256 + the number of an ACL type that torch has,
// too. `fallback` where the argument is None.
at::ScalarType type_of_code(const char* op, const char* name, std::optional<int64_t> code, at::ScalarType fallback);

// In float32, in which operators compute what they take in float16 and bfloat16; float64 stays.
inline Tensor wide(const Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}
// The same of an optional tensor; undefined where there is none.
inline Tensor wide(const OptionalTensor& tensor) { return tensor && tensor->defined() ? wide(*tensor) : Tensor(); }

}  // namespace npugraph::npu_ops
