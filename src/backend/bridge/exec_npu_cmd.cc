// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/exec_npu_cmd.h"

#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "backend/bridge/dispatch.h"
#include "backend/bridge/library_operators.h"
#include "base/error.h"
#include "libraries/launch.h"

namespace npugraph::bridge {
namespace {

using c10::IValue;
using torch::jit::Stack;

// C++ converts numbers where torch does not: `1` for a float, `true` for an int.
void convert_number(IValue& value, const c10::Argument& argument) {
  const c10::Type* type = argument.type().get();
  if (type->kind() == c10::TypeKind::OptionalType) type = type->castRaw<c10::OptionalType>()->getElementType().get();
  if (type->kind() == c10::TypeKind::FloatType && value.isInt()) value = static_cast<double>(value.toInt());
  if (type->kind() == c10::TypeKind::IntType && value.isBool()) value = static_cast<int64_t>(value.toBool());
}

void check(const IValue& value, const c10::Argument& argument, const std::string& name,
           const libraries::Kernel& kernel) {
  const bool is_missing = value.isTensor() && !value.toTensor().defined();
  const bool may_be_missing = argument.type()->kind() == c10::TypeKind::OptionalType;
  const bool fits = is_missing ? may_be_missing : value.type<c10::Type>()->isSubtypeOf(*argument.type());
  if (fits) return;
  throw UserError(cat(name, ": the argument '", argument.name(), "' is ",
                      is_missing ? "an undefined tensor" : value.type<c10::Type>()->str(), " and must be ",
                      argument.type()->str(), "; the kernel is that of ", kernel.schema.text,
                      ", and takes a tensor for each new result behind these arguments"));
}

void exec_npu_cmd(const c10::OperatorHandle&, Stack* stack) {
  Stack arguments = torch::jit::pop(*stack).toList().vec();
  const std::string name = torch::jit::pop(*stack).toStringRef();
  const libraries::Kernel& kernel = libraries::find_launched(name, arguments.size());
  const c10::OperatorName launch = operator_of(*kernel.launch);
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(launch.name.c_str(), launch.overload_name.c_str());
  for (size_t i = 0; i < arguments.size(); ++i) {
    convert_number(arguments[i], op.schema().arguments()[i]);
    check(arguments[i], op.schema().arguments()[i], name, kernel);
  }
  const BelowAutograd below(/*may_be_python=*/true);
  op.callBoxed(&arguments);
}

}  // namespace

void define_exec_npu_cmd() {
  static torch::Library library(torch::Library::FRAGMENT, "npugraph", std::nullopt, __FILE__, __LINE__);
  library.def("exec_npu_cmd(str name, Any[] arguments) -> ()",
              torch::CppFunction::makeFromBoxedFunction<&exec_npu_cmd>());
  // Modes see the operator that it calls, whose arguments say which tensors are written.
  library.impl("exec_npu_cmd", c10::DispatchKey::Python, torch::CppFunction::makeFallthrough());
}

}  // namespace npugraph::bridge
