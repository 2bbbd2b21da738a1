// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/framework/operator_library.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

namespace npugraph::npu_ops {
namespace {

using c10::DispatchKey;
using torch::jit::Stack;

constexpr std::string_view kSuffix = "_in_graphs";
constexpr std::string_view kUnmarked = "Tensor[] out)", kMarked = "Tensor(a!)[] out)";

// Schema of the second form. Returns nullopt for operators that return new tensors.
std::optional<std::string> without_results(std::string_view schema) {
  const size_t arrow = schema.rfind("->");
  std::string arguments(schema.substr(0, arrow));
  if (schema.substr(arrow).find('!') == schema.npos) {
    const size_t out = arguments.rfind(kUnmarked);
    if (out == arguments.npos) return std::nullopt;
    arguments.replace(out, kUnmarked.size(), kMarked);
  }
  arguments.insert(arguments.find_first_of(".("), kSuffix);
  return arguments + "-> ()";
}

class DropResults final : public c10::OperatorKernel {
 public:
  explicit DropResults(const c10::OperatorHandle& op) : op_(op) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet keys, Stack* stack) const {
    // Modes in Python have seen the call already, and some refuse operators that return what op_ returns.
    op_.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, DispatchKey::Python), stack);
    torch::jit::drop(*stack, op_.schema().returns().size());
  }

 private:
  c10::OperatorHandle op_;
};

}  // namespace

std::string define_graph_form(torch::Library& library, const char* schema, const c10::OperatorHandle& op) {
  const auto form = without_results(schema);
  if (!form) return "";
  library.def(form->c_str());
  const std::string name = form->substr(0, form->find('('));
  library.impl(name.c_str(),
               torch::dispatch(DispatchKey::CompositeExplicitAutograd,
                               torch::CppFunction::makeFromBoxedFunctor(std::make_unique<DropResults>(op))));
  return name;
}

namespace {

using c10::DispatchKey;
using npu::Computation;
using torch::CppFunction;
using torch::Library;

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
      const npu::RecordGradient record = npu::find_operator(op)->gradient;
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

CppFunction gradient_of(Computation computation) {
  switch (computation) {
    case Computation::kOnNpu:
    case Computation::kFactory:
      return CppFunction::makeFromBoxedFunction<&differentiate_parts<DispatchKey::PrivateUse1, Reads::kSizes>>();
    case Computation::kParts:
      return CppFunction::makeFromBoxedFunction<&differentiate_parts<DispatchKey::CPU, Reads::kSizes>>();
    default: return CppFunction::makeFromBoxedFunction<&differentiate_parts<DispatchKey::CPU, Reads::kValues>>();
  }
}

c10::OperatorHandle handle_of(const std::string& name) {
  const size_t dot = name.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.substr(0, dot).c_str(),
                                                        dot == name.npos ? "" : name.substr(dot + 1).c_str());
}

}  // namespace

OperatorLibrary::Namespace::Namespace(const char* name)
    : schemas(Library::FRAGMENT, name, std::nullopt, __FILE__, __LINE__),
      cpu(Library::IMPL, name, DispatchKey::CPU, __FILE__, __LINE__),
      npu(Library::IMPL, name, DispatchKey::PrivateUse1, __FILE__, __LINE__),
      select(Library::IMPL, name, DispatchKey::BackendSelect, __FILE__, __LINE__),
      meta(Library::IMPL, name, DispatchKey::Meta, __FILE__, __LINE__),
      autograd(Library::IMPL, name, DispatchKey::Autograd, __FILE__, __LINE__),
      inplace(Library::IMPL, name, DispatchKey::ADInplaceOrView, __FILE__, __LINE__) {}

OperatorLibrary::OperatorLibrary() : npu_("npu"), atb_("atb"), air_("air") {}

void OperatorLibrary::add(OperatorRow row) {
  const std::string name(row.schema, std::string_view(row.schema).find('('));
  Namespace& library = name.starts_with("npu::") ? npu_ : name.starts_with("air::") ? air_ : atb_;
  library.schemas.def(row.schema);
  const c10::OperatorHandle op = handle_of(name);
  npu::Operator facts{.name = name,
                      .definition = row.definition,
                      .computation = row.kernel.computation,
                      .whole_with = row.kernel.whole_with,
                      .traits = row.traits,
                      .gradient = row.gradient};
  library.add_kernels(name.c_str(), op, std::move(row.kernel));
  if (facts.computation != Computation::kComposite)
    facts.graph_form = define_graph_form(library.schemas, row.schema, op);
  npu::declare_operator(op, std::move(facts));
}

void OperatorLibrary::Namespace::add_kernels(const char* name, const c10::OperatorHandle& op, Kernel kernel) {
  const bool runs_on_meta = kernel.computation != Computation::kOnNpu || kernel.meta.has_value();
  switch (kernel.computation) {
    case Computation::kComposite:
      schemas.impl(name, torch::dispatch(DispatchKey::CompositeImplicitAutograd, std::move(*kernel.function)));
      for (const DispatchKey key : {DispatchKey::AutogradCPU, DispatchKey::AutogradPrivateUse1})
        schemas.impl(name, torch::dispatch(key, CppFunction::makeFromBoxedFunction<&call_composite_named>()));
      select.impl(name, CppFunction::makeFromBoxedFunction<&call_named>());
      return;
    case Computation::kParts:
      if (!kernel.meta) kernel.meta = CppFunction::makeFromBoxedFunction<&run_kernel>();
      [[fallthrough]];
    case Computation::kWhole:
      cpu.impl(name, std::move(*kernel.function));
      select.impl(name, CppFunction::makeFromBoxedFunction<&call_named>());
      break;
    case Computation::kOnNpu:
      npu.impl(name, std::move(*kernel.function));
      select.impl(name, CppFunction::makeFromBoxedFunction<&call_named>());
      break;
    case Computation::kFactory: select.impl(name, std::move(*kernel.function)); break;
    case Computation::kMark:
      schemas.impl(name, torch::dispatch(DispatchKey::CompositeExplicitAutograd, std::move(*kernel.function)));
      break;
    case Computation::kSizes: break;
  }
  if (kernel.meta) meta.impl(name, std::move(*kernel.meta));
  if (op.schema().is_mutable())
    inplace.impl(name, torch::autograd::autogradNotImplementedInplaceOrViewFallback());
  else if (kernel.computation != Computation::kSizes && runs_on_meta && !op.schema().returns().empty())
    autograd.impl(name, gradient_of(kernel.computation));
}

}  // namespace npugraph::npu_ops
