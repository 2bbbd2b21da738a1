// SPDX-License-Identifier: Apache-2.0
// Types of the arguments and results of most operators, and checks of arguments. `op` is the name of the operator
// without its namespace, `name` that of the argument in the schema. All raise RuntimeError (c10::Error) with the given
// value and the allowed ones.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <tuple>

#include <ATen/ATen.h>

namespace npugraph::npu_ops {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using OptionalInt = std::optional<int64_t>;
using OptionalString = std::optional<std::string_view>;

// So many tensors, as results.
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;
using Six = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;
using Seven = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;
using Eight = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

// float32, float16, bfloat16 or float64.
void check_floating(const char* op, const char* name, const Tensor& tensor);
void check_type(const char* op, const char* name, const Tensor& tensor, std::initializer_list<at::ScalarType> allowed);
void check_dims(const char* op, const char* name, const Tensor& tensor, int64_t at_least, int64_t at_most);
void check_same_shape(const char* op, const char* name, const Tensor& tensor, const char* like_name,
                      const Tensor& like);
// The shape of `tensor` is that of the last dimensions of `of`.
void check_last_dims(const char* op, const char* name, const Tensor& tensor, const char* of_name, const Tensor& of);

// `value` of an argument that chooses one of several modes.
void check_choice(const char* op, const char* name, int64_t value, std::initializer_list<int64_t> allowed);

// The element type that an `int dtype` argument stands for: a torch.dtype, or 256 + the number of an ACL type that
// torch has as well. `fallback` if the argument is None.
at::ScalarType type_of_code(const char* op, const char* name, std::optional<int64_t> code, at::ScalarType fallback);

// `tensor` in float32, the type in which operators compute on float16 and bfloat16; float64 stays as it is.
inline Tensor wide(const Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}
// The same for an optional tensor; undefined if it is absent.
inline Tensor wide(const OptionalTensor& tensor) { return tensor && tensor->defined() ? wide(*tensor) : Tensor(); }

// Whether an argument is a tensor, and not None.
inline bool given(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

}  // namespace npugraph::npu_ops
