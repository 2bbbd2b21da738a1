// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/framework/definitions.h"

#include <algorithm>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>

#include "torch/npu_ops/framework/graph_forms.h"
#include "torch/npu_ops/framework/graph_gradients.h"

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

bool wants_gradient(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() && value.toTensor().requires_grad();
  if (!value.isList()) return false;
  const auto list = value.toListRef();
  return std::any_of(list.begin(), list.end(), &wants_gradient);
}

// Runs the kernel of `op`. Adds the operator's name to errors of torch that come out of it and do not contain the name,
// as in "index 24 is out of bounds for dimension 0 with size 2 (in npu::npu_scatter_pa_kv_cache)".
template <typename Run>
void with_operator_named(const c10::OperatorHandle& op, const Run& run) {
  try {
    run();
  } catch (c10::Error& error) {
    const std::string& name = op.operator_name().name;
    const bool has_name = error.msg().find(name.substr(name.rfind(':') + 1)) != std::string::npos;
    if (!has_name && error.context().empty()) error.add_context("in " + name);
    throw;
  }
}

// Kernel of BackendSelect, a key that every call passes just before the kernel of a device, with gradients or without.
void call_named(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::DispatchKeySet kernels(c10::DispatchKeySet::FULL_AFTER, DispatchKey::BackendSelect);
  with_operator_named(op, [&] { op.redispatchBoxed(keys & kernels, stack); });
}

// Autograd kernel of composites: their kernel takes tensors of any device, and its parts record their own gradients.
void call_composite_named(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  with_operator_named(op, [&] { op.callBoxedForDispatchKey(DispatchKey::CompositeImplicitAutograd, *stack); });
}

enum class Reads { kSizes, kValues };

// Autograd kernel of operators whose kernel for `key` is composed of others: if a gradient is wanted, each of
// these records its own.
template <DispatchKey key, Reads reads>
void differentiate_parts(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  if (at::GradMode::is_enabled() && std::any_of(arguments.begin(), arguments.end(), &wants_gradient)) {
    const bool has_values = !keys.has(DispatchKey::Python) && !keys.has(DispatchKey::Meta);
    if (reads == Reads::kValues && !has_values) {
      const RecordGradient record = graph_gradient(c10::toString(op.operator_name()));
      TORCH_CHECK_NOT_IMPLEMENTED(record != nullptr, op.operator_name(),
                                  " reads values of its arguments, so that a graph with gradients cannot hold it: call "
                                  "it outside of torch.compile, or without gradients");
      return with_operator_named(op, [&] { record(op, stack); });
    }
    return with_operator_named(op, [&] { op.callBoxedForDispatchKey(key, *stack); });
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
}

// Meta kernel of composed operators: their kernel reads only the sizes of its arguments.
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
    rows_.push_back({.name = name_space_ + "::" + name});
  }
}

void Definitions::complete() { npu::declare_operators(std::move(rows_), define_graph_forms(name_space_, schemas())); }

const std::vector<const char*>& Definitions::schemas() const {
  return name_space_ == "npu" ? kNpuSchemas : kAtbSchemas;
}

void Definitions::add(const char* name, Operator facts) {
  facts.name = name_space_ + "::" + name;
  const auto found = std::ranges::find(rows_, facts.name, &Operator::name);
  TORCH_INTERNAL_ASSERT(found != rows_.end() && !found->has_meta && !found->has_kernel, facts.name);
  *found = facts;
  if (facts.is_composite) {
    for (const DispatchKey key : {DispatchKey::AutogradCPU, DispatchKey::AutogradPrivateUse1})
      schemas_.impl(name, torch::dispatch(key, torch::CppFunction::makeFromBoxedFunction<&call_composite_named>()));
    select_.impl(name, torch::CppFunction::makeFromBoxedFunction<&call_named>());
    return;
  }
  if (facts.is_composed && facts.whole_with.empty())
    meta_.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_kernel>());
  const std::string_view full = found->name;
  const size_t dot = full.find('.');
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
      std::string(full.substr(0, dot)).c_str(), dot == full.npos ? "" : std::string(full.substr(dot + 1)).c_str());
  if (op.hasKernelForDispatchKey(DispatchKey::CPU) || op.hasKernelForDispatchKey(DispatchKey::PrivateUse1))
    select_.impl(name, torch::CppFunction::makeFromBoxedFunction<&call_named>());
  if (op.schema().is_mutable())
    inplace_.impl(name, torch::autograd::autogradNotImplementedInplaceOrViewFallback());
  else if (facts.has_kernel && facts.has_meta && !op.schema().returns().empty())
    autograd_.impl(name, gradient_of(facts));
}

}  // namespace npugraph::npu_ops
