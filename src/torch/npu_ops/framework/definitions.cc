// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/framework/definitions.h"

#include <algorithm>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>

#include "torch/npu_ops/framework/graph_forms.h"

namespace npugraph::npu_ops {
namespace {

using c10::DispatchKey;
using torch::Library;

const std::vector<const char*> kNpuSchemas = {
#include "torch/npu_ops/framework/schemas_npu.inc"
};
const std::vector<const char*> kAtbSchemas = {
#include "torch/npu_ops/framework/schemas_atb.inc"
};

std::vector<Operator>& table() {
  static auto* out = new std::vector<Operator>;
  return *out;
}

bool wants_gradient(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() && value.toTensor().requires_grad();
  if (!value.isList()) return false;
  const auto list = value.toListRef();
  return std::any_of(list.begin(), list.end(), &wants_gradient);
}

enum class Reads { kSizes, kValues };

// Operators whose kernel, of `key`, is made of others: where a gradient is wanted, each of these records its own.
template <DispatchKey key, Reads reads>
void differentiate_parts(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  if (at::GradMode::is_enabled() && std::any_of(arguments.begin(), arguments.end(), &wants_gradient)) {
    const bool has_values = !keys.has(DispatchKey::Python) && !keys.has(DispatchKey::Meta);
    TORCH_CHECK_NOT_IMPLEMENTED(
        reads == Reads::kSizes || has_values, op.operator_name(),
        " reads values of its arguments, so that a graph with gradients cannot hold it: call it "
        "outside of torch.compile, or without gradients");
    op.callBoxedForDispatchKey(key, *stack);
    return;
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
}

// Composed operators on meta tensors: the kernel asks for sizes alone.
void run_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  op.callBoxedForDispatchKey(DispatchKey::CPU, *stack);
}

torch::CppFunction gradient_of(const Operator& row) {
  using torch::CppFunction;
  if (row.is_on_npu_alone)
    return CppFunction::makeFromBoxedFunction<&differentiate_parts<DispatchKey::PrivateUse1, Reads::kSizes>>();
  if (row.is_composed)
    return CppFunction::makeFromBoxedFunction<&differentiate_parts<DispatchKey::CPU, Reads::kSizes>>();
  return CppFunction::makeFromBoxedFunction<&differentiate_parts<DispatchKey::CPU, Reads::kValues>>();
}

}  // namespace

Definitions::Definitions(const char* name_space)
    : name_space_(name_space),
      schemas_(Library::FRAGMENT, name_space, std::nullopt, __FILE__, __LINE__),
      cpu_(Library::IMPL, name_space, DispatchKey::CPU, __FILE__, __LINE__),
      npu_(Library::IMPL, name_space, DispatchKey::PrivateUse1, __FILE__, __LINE__),
      select_(Library::IMPL, name_space, DispatchKey::BackendSelect, __FILE__, __LINE__),
      meta_(Library::IMPL, name_space, DispatchKey::Meta, __FILE__, __LINE__),
      autograd_(Library::IMPL, name_space, DispatchKey::Autograd, __FILE__, __LINE__),
      inplace_(Library::IMPL, name_space, DispatchKey::ADInplaceOrView, __FILE__, __LINE__) {
  for (const char* text : schemas()) {
    schemas_.def(text);
    const std::string name(text, std::string_view(text).find('('));
    table().push_back({.name = name_space_ + "::" + name});
  }
}

void Definitions::complete() {
  define_graph_forms(name_space_, schemas());
  std::sort(table().begin(), table().end(), [](const Operator& a, const Operator& b) { return a.name < b.name; });
}

const std::vector<const char*>& Definitions::schemas() const {
  return name_space_ == "npu" ? kNpuSchemas : kAtbSchemas;
}

void Definitions::add(const char* name, Operator facts) {
  facts.name = name_space_ + "::" + name;
  auto& all = table();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Operator& row) { return row.name == facts.name; });
  TORCH_INTERNAL_ASSERT(found != all.end() && !found->has_meta && !found->has_kernel, facts.name);
  *found = facts;
  if (facts.is_composite) return;
  if (facts.is_composed && facts.whole_with.empty())
    meta_.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_kernel>());
  const std::string_view full = found->name;
  const size_t dot = full.find('.');
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
      std::string(full.substr(0, dot)).c_str(), dot == full.npos ? "" : std::string(full.substr(dot + 1)).c_str());
  if (op.schema().is_mutable())
    inplace_.impl(name, torch::autograd::autogradNotImplementedInplaceOrViewFallback());
  else if (facts.has_kernel && facts.has_meta && !op.schema().returns().empty())
    autograd_.impl(name, gradient_of(facts));
}

const std::vector<Operator>& operators() { return table(); }

}  // namespace npugraph::npu_ops
