// SPDX-License-Identifier: Apache-2.0
// Runs a node of a graph on constants, for folding.
#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>

#include "backend/bridge/convert.h"
#include "backend/bridge/declared.h"
#include "backend/bridge/dispatch.h"
#include "backend/bridge/torch_host.h"
#include "backend/own_kernels/own_kernels.h"
#include "base/error.h"

namespace npugraph::bridge {

namespace {

using Results = std::vector<std::shared_ptr<const ir::ConstantData>>;

// Returns nullopt if an expression is symbolic.
std::optional<std::vector<int64_t>> integers(const std::vector<Expr>& exprs) {
  std::vector<int64_t> values;
  for (const Expr& e : exprs) {
    const auto value = e.as_int();
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

// The constant of value `id`; an undefined tensor if the value is no constant, or not strided memory.
at::Tensor find_constant(const ir::Graph& graph, ir::ValueId id) {
  const auto constant =
      std::find_if(graph.constants.begin(), graph.constants.end(), [&](const auto& c) { return c.value == id; });
  if (constant == graph.constants.end() || !graph.value(id).is_tensor()) return {};
  const ir::TensorType& type = graph.value(id).tensor();
  const auto sizes = integers(type.sizes);
  const auto strides = integers(type.strides);
  if (!sizes || !strides || (constant->data->data == nullptr && constant->data->bytes != 0)) return {};
  return tensor_over(constant->data->data, *sizes, *strides, type.dtype, constant->data->owner);
}

// `tensor` as a constant of exactly this type, or null if it has another one. A view of a
// constant shares its memory, which is never written.
std::shared_ptr<const ir::ConstantData> as_constant(at::Tensor tensor, const ir::Type& type) {
  const auto* strided = std::get_if<ir::TensorType>(&type);
  if (strided == nullptr || !tensor.defined() || tensor.layout() != at::kStrided) return nullptr;
  const auto sizes = integers(strided->sizes);
  const auto strides = integers(strided->strides);
  if (!sizes || !strides || tensor.sizes() != at::IntArrayRef(*sizes)) return nullptr;
  if (tensor.scalar_type() != to_torch(strided->dtype)) return nullptr;
  tensor = claim(std::move(tensor));
  if (tensor.strides() != at::IntArrayRef(*strides)) {
    tensor = at::empty_strided(*sizes, *strides, tensor.options()).copy_(tensor);
  }
  return std::make_shared<ir::ConstantData>(constant_of(std::move(tensor)));
}

// All arguments of the node, or nullopt if one of them is not constant.
std::optional<torch::jit::Stack> make_arguments(const ir::Graph& graph, const ir::Node& node,
                                                const c10::OperatorHandle& op) {
  bool constant = node.args.size() == op.schema().arguments().size();
  const auto tensor = [&](TensorRef ref) {
    at::Tensor found = find_constant(graph, ref.id);
    constant &= found.defined();
    return found;
  };
  const auto scalar = [&](const Expr&) {
    constant = false;
    return Scalar();
  };
  torch::jit::Stack stack;
  for (size_t i = 0; i < node.args.size() && constant; ++i) {
    stack.push_back(to_ivalue(node.args[i], op.schema().arguments()[i], {tensor, scalar}));
  }
  if (!constant) return std::nullopt;
  return stack;
}

void append_tensors(c10::IValue value, std::vector<at::Tensor>& tensors) {
  if (value.isTensorList()) {
    const c10::List<at::Tensor> list = std::move(value).toTensorList();
    for (size_t i = 0; i < list.size(); ++i) tensors.push_back(list.extract(i));
  } else {
    tensors.push_back(value.isTensor() ? std::move(value).toTensor() : at::Tensor());
  }
}

bool has_result_on_device(const ir::Graph& graph, const ir::Node& node) {
  return std::ranges::any_of(node.results, [&](ir::ValueId id) {
    const auto* type = id == ir::kNone ? nullptr : std::get_if<ir::TensorType>(&graph.value(id).type);
    return type != nullptr && type->device.type != "cpu";
  });
}

Results evaluate_node(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  const auto op = find_operator(node.op->name);
  if (!op || !node.defines.empty()) return {};
  const c10::InferenceMode normal_mode(false);
  const at::NoGradGuard no_grad;
  const BelowAutograd below;
  auto stack = make_arguments(graph, node, *op);
  if (!stack) return {};
  if (const own::StackKernel kernel = own::own_kernel(op->operator_name(), has_result_on_device(graph, node)))
    kernel(*stack);
  else
    op->callBoxed(*stack);

  std::vector<at::Tensor> tensors;
  for (c10::IValue& value : *stack) append_tensors(std::move(value), tensors);
  if (tensors.size() < node.results.size()) return {};
  Results results;
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (node.results[i] == ir::kNone) return {};
    results.push_back(as_constant(std::move(tensors[i]), graph.value(node.results[i]).type));
    if (results.back() == nullptr) return {};
  }
  return results;
}

}  // namespace

passes::ConstantEvaluator constant_evaluator() {
  return [](const ir::Graph& graph, ir::NodeId node) -> Results {
    try {
      return evaluate_node(graph, node);
    } catch (const std::exception&) {
      return {};  // the operator raises when the program runs, as it does in eager
    }
  };
}

}  // namespace npugraph::bridge
