// SPDX-License-Identifier: Apache-2.0
// The gradient of npu_fusion_attention_v3 in graphs: one call of npu_fusion_attention_grad_v3, which has none there.
#include <array>

#include <torch/csrc/autograd/custom_function.h>

#include "device/npu_ops/attention/fusion_attention.h"

namespace npugraph::npu_ops {
namespace {

using c10::OperatorHandle;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using torch::jit::Stack;

constexpr const char* kForwardOperator = "npu::npu_fusion_attention_v3";
constexpr const char* kBackwardOperator = "npu::npu_fusion_attention_grad_v3";

// Names of the arguments of the gradient that are results of the operator, in the order of the results.
constexpr std::array<const char*, 6> kResults = {"attention_in", "softmax_max", "softmax_sum",
                                                 "softmax_in",   "seed",        "offset"};

OperatorHandle operator_named(const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); }

// Saves the arguments of the gradient by name. Tensors are saved for backward, so that autograd notices writes to them.
void save_arguments(AutogradContext* context, const OperatorHandle& op, const Stack& arguments,
                    const variable_list& results) {
  variable_list tensors;
  const auto keep = [&](const std::string& name, const c10::IValue& value) {
    const bool is_tensor = value.isTensor() && value.toTensor().defined();
    if (is_tensor) tensors.push_back(value.toTensor());
    context->saved_data[name] = is_tensor ? c10::IValue(static_cast<int64_t>(tensors.size()) - 1) : value;
    context->saved_data["is_tensor." + name] = is_tensor;
  };
  const auto& schema = op.schema().arguments();
  for (size_t i = 0; i < schema.size(); ++i)
    keep(schema[i].name() == "scale" ? "scale_value" : schema[i].name(), arguments[i]);
  for (size_t i = 0; i < kResults.size(); ++i) keep(kResults[i], results[i]);
  context->save_for_backward(tensors);
}

Stack gradient_arguments(AutogradContext* context, const OperatorHandle& gradient, const at::Tensor& dy) {
  const variable_list tensors = context->get_saved_variables();
  Stack arguments;
  for (const c10::Argument& argument : gradient.schema().arguments()) {
    const auto saved = context->saved_data.find(argument.name());
    if (argument.name() == "dy") {
      arguments.emplace_back(dy);
    } else if (saved == context->saved_data.end()) {
      arguments.push_back(argument.default_value().value_or(c10::IValue()));
    } else if (context->saved_data["is_tensor." + argument.name()].toBool()) {
      arguments.emplace_back(tensors[saved->second.toInt()]);
    } else {
      arguments.push_back(saved->second);
    }
  }
  return arguments;
}

class FusionAttentionGradient : public torch::autograd::Function<FusionAttentionGradient> {
 public:
  // Query, key, value, pse and sink are parameters so that autograd sees which of `arguments` have gradients.
  static variable_list forward(AutogradContext* context, const Tensor&, const Tensor&, const Tensor&,
                               const OptionalTensor&, const OptionalTensor&, const Stack& arguments) {
    const OperatorHandle op = operator_named(kForwardOperator);
    Stack stack = arguments;
    op.callBoxed(stack);
    variable_list results;
    for (const c10::IValue& result : stack) results.push_back(result.toTensor());
    context->mark_non_differentiable({results.begin() + 1, results.end()});
    context->set_materialize_grads(false);
    save_arguments(context, op, arguments, results);
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& given) {
    variable_list gradients(6);
    if (!given[0].defined()) return gradients;
    const OperatorHandle op = operator_named(kBackwardOperator);
    Stack stack = gradient_arguments(context, op, given[0]);
    op.callBoxed(stack);
    for (size_t i = 0; i < stack.size(); ++i) {
      const bool has = i < 3 || context->saved_data[i == 3 ? "is_tensor.pse" : "is_tensor.sink"].toBool();
      if (has) gradients[i] = stack[i].toTensor();
    }
    return gradients;
  }
};

}  // namespace

void record_fusion_attention(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size()), stack->end());
  const variable_list out =
      FusionAttentionGradient::apply(call.tensor({"query"}), call.tensor({"key"}), call.tensor({"value"}),
                                     call.given_tensor({"pse"}), call.given_tensor({"sink"}), arguments);
  call.give(out[0], out[1], out[2], out[3], out[4], out[5]);
}

void record_fusion_attention_gradient(const OperatorHandle& op, Stack* stack) {
  const at::NoGradGuard no_gradients;  // a graph has no parts of the operator to compute them of
  op.callBoxed(*stack);
}

}  // namespace npugraph::npu_ops
