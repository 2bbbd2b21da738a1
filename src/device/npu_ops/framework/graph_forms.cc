// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/framework/graph_forms.h"

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

}  // namespace npugraph::npu_ops
