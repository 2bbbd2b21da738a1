// SPDX-License-Identifier: Apache-2.0
// Kernels of libraries in extensions for torch, as they are written for Ascend. C++17 and the headers of torch; the
// extension links nothing of npugraph.
//
//   #include <npugraph/torch.h>
//   #include <torch/extension.h>
//
//   at::Tensor scaled_add(const at::Tensor& x, const at::Tensor& y, double scale) {
//     at::Tensor result = at::empty_like(x);
//     EXEC_NPU_CMD(aclnnScaledAdd, x, y, scale, result);
//     return result;
//   }
//
//   TORCH_LIBRARY_FRAGMENT(my_ops, m) { m.def("scaled_add(Tensor x, Tensor y, float scale) -> Tensor"); }
//   TORCH_LIBRARY_IMPL(my_ops, PrivateUse1, m) { m.impl("scaled_add", &scaled_add); }
//
// aclnnScaledAdd is the kernel of an operator `scaled_add` of any namespace (npugraph/kernel.h), which
// npugraph.load_library has loaded. The kernel may be in the extension itself.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace npugraph {
namespace detail {

template <typename T>
c10::IValue value_of(const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<int64_t>(value);
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<double>(value);
  else if constexpr (std::is_convertible_v<T, const char*>)
    return std::string(value);
  else
    return c10::IValue(value);
}

inline void run_kernel(const char* name, c10::impl::GenericList arguments) {
  static constexpr const char* kOperator = "npugraph::exec_npu_cmd";
  static const auto op = [] {
    auto found = c10::Dispatcher::singleton().findSchema({kOperator, ""});
    TORCH_CHECK(found.has_value(), "npugraph, which runs kernels, is not loaded: import npugraph or torch_npu first");
    return *found;
  }();
  torch::jit::Stack stack{std::string(name), std::move(arguments)};
  op.callBoxed(&stack);
}

}  // namespace detail

// Runs the kernel of the operator "ns::name" ("ns::name.overload"), or what EXEC_NPU_CMD calls "aclnnName", on tensors
// of npu or cpu. The arguments are those of the operator's schema, and behind them a tensor for each result that is not
// an argument: the kernel writes it. While a stream is captured, the call becomes a task of the graph. c10::Error or
// std::exception if no loaded library has the kernel, if the arguments do not fit, or if the kernel reports an error.
template <typename... Arguments>
void run_kernel(const char* name, const Arguments&... arguments) {
  c10::impl::GenericList list(c10::AnyType::get());
  (list.push_back(detail::value_of(arguments)), ...);
  detail::run_kernel(name, std::move(list));
}

}  // namespace npugraph

// The functions with which such extensions make their results.
namespace at_npu::native {

struct OpPreparation {
  static at::Tensor apply_tensor_without_format(const at::Tensor& like) {
    return at::empty(like.sizes(), like.options());
  }
  static at::Tensor apply_tensor_without_format(const at::Tensor& like, at::IntArrayRef sizes) {
    return at::empty(sizes, like.options());
  }
  static at::Tensor apply_tensor_without_format(at::IntArrayRef sizes, const at::TensorOptions& options) {
    return at::empty(sizes, options);
  }
};

}  // namespace at_npu::native

// Runs the kernel that Ascend's operator library has under the name of a function, aclnnScaledAdd: see run_kernel.
#define EXEC_NPU_CMD(function, ...) ::npugraph::run_kernel(#function, __VA_ARGS__)
