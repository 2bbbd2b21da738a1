// SPDX-License-Identifier: Apache-2.0
// Arguments of a call by their names in the schema, for kernels of several operators with many arguments, of which they read
// the same ones under the same names, or under others:
//
//   void attention(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
//     CallArguments call(op, stack);
//     const double scale = call.number({"scale", "softmax_scale"});
//     ...
//     call.give(result, statistics);
//   }
//   npu.composed("npu_attention", boxed<&attention>(), "...");
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "torch/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// Of a tensor of integers on the host.
std::vector<int64_t> values_of(const Tensor& integers);

template <auto* Kernel>
torch::CppFunction boxed() {
  return torch::CppFunction::makeFromBoxedFunction<Kernel>();
}

class CallArguments {
 public:
  using Names = std::initializer_list<const char*>;  // one of which the schema has, or none

  CallArguments(const c10::OperatorHandle& op, torch::jit::Stack* stack);

  // The operator's name without its namespace.
  const char* op() const { return op_.c_str(); }

  const Tensor& tensor(Names names) const;    // which the call has
  Tensor optional_tensor(Names names) const;  // undefined where it is None or the schema has none
  OptionalTensor given_tensor(Names names) const;
  std::vector<Tensor> tensors(Names names) const;
  bool is_tensor(Names names) const;                                // and no list, and not None
  std::optional<std::vector<int64_t>> integers(Names names) const;  // a list, or a tensor on the host
  std::optional<int64_t> optional_integer(Names names) const;
  // `fallback` where it is None or the schema has none.
  int64_t integer(Names names, int64_t fallback = 0) const;
  double number(Names names, double fallback = 0) const;
  bool flag(Names names) const;
  std::string text(Names names) const;  // empty where it is None, or no string in the schema

  // Puts results in the place of the arguments.
  template <typename... Results>
  void give(Results... results) {
    torch::jit::drop(*stack_, arguments_.size());
    (stack_->emplace_back(std::move(results)), ...);
  }

 private:
  const c10::IValue* find(Names names) const;  // null where it is None or the schema has none

  std::string op_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack* stack_;
  std::vector<c10::IValue> arguments_;
};

}  // namespace npugraph::npu_ops
