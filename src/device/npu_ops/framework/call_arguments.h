// SPDX-License-Identifier: Apache-2.0
// Access to the arguments of a call by their names in the schema. For kernels that several operators with many
// arguments share, where the same argument may have different names:
//
//   void attention(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
//     CallArguments call(op, stack);
//     const double scale = call.number({"scale", "softmax_scale"});
//     ...
//     call.give(result, statistics);
//   }
//   library.add({.schema = "npu::npu_attention(...) -> Tensor", .kernel = parts(boxed<&attention>()), ...});
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// The values of a tensor of integers on the host.
std::vector<int64_t> values_of(const Tensor& integers);

template <auto* Kernel>
torch::CppFunction boxed() {
  return torch::CppFunction::makeFromBoxedFunction<Kernel>();
}

// Positions of the arguments of an operator, by their names.
using ArgumentPositions = std::unordered_map<std::string_view, size_t>;

class CallArguments {
 public:
  using Names = std::initializer_list<const char*>;  // alternative names, of which the schema has at most one

  CallArguments(const c10::OperatorHandle& op, torch::jit::Stack* stack);

  // The operator's name without its namespace.
  const char* op() const { return op_.c_str(); }

  const Tensor& tensor(Names names) const;    // must be given
  Tensor optional_tensor(Names names) const;  // undefined if None or not in the schema
  OptionalTensor given_tensor(Names names) const;
  std::vector<Tensor> tensors(Names names) const;
  bool is_tensor(Names names) const;                                // false for lists and None
  std::optional<std::vector<int64_t>> integers(Names names) const;  // a list, or a tensor on the host
  std::optional<int64_t> optional_integer(Names names) const;
  // These return `fallback` if the argument is None or not in the schema.
  int64_t integer(Names names, int64_t fallback = 0) const;
  double number(Names names, double fallback = 0) const;
  bool flag(Names names) const;
  std::string text(Names names) const;  // empty if None, not in the schema, or no string

  // Replaces the arguments by the results on the stack.
  template <typename... Results>
  void give(Results... results) {
    torch::jit::drop(*stack_, arguments_.size());
    (stack_->emplace_back(std::move(results)), ...);
  }

 private:
  const c10::IValue* find(Names names) const;  // null if None or not in the schema

  std::string op_;
  const ArgumentPositions& positions_;
  torch::jit::Stack* stack_;
  std::vector<c10::IValue> arguments_;
};

}  // namespace npugraph::npu_ops
