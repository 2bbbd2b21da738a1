// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/framework/graph_forms.h"

#include <memory>
#include <optional>
#include <string_view>

#include <ATen/core/dispatch/Dispatcher.h>
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

std::string name_of(std::string_view schema) { return std::string(schema.substr(0, schema.find('('))); }

c10::OperatorHandle find(const std::string& name_space, const std::string& name) {
  const size_t dot = name.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow((name_space + "::" + name.substr(0, dot)).c_str(),
                                                        dot == name.npos ? "" : name.substr(dot + 1).c_str());
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

std::vector<npu::GraphForm> define_graph_forms(const std::string& name_space, const std::vector<const char*>& schemas) {
  std::vector<npu::GraphForm> forms;
  // An operator is unregistered with its library.
  static auto* libraries = new std::vector<std::unique_ptr<torch::Library>>;
  auto& library = *libraries->emplace_back(
      std::make_unique<torch::Library>(torch::Library::FRAGMENT, name_space, std::nullopt, __FILE__, __LINE__));
  for (const char* schema : schemas) {
    const auto form = without_results(schema);
    if (!form) continue;
    const c10::OperatorHandle op = find(name_space, name_of(schema));
    if (op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd)) continue;
    library.def(form->c_str());
    const std::string name = name_of(*form);
    library.impl(name.c_str(),
                 torch::dispatch(DispatchKey::CompositeExplicitAutograd,
                                 torch::CppFunction::makeFromBoxedFunctor(std::make_unique<DropResults>(op))));
    forms.emplace_back(name_space + "::" + name_of(schema), name_space + "::" + name);
  }
  return forms;
}

}  // namespace npugraph::npu_ops
