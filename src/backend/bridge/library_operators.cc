// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/library_operators.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include "backend/bridge/convert.h"
#include "backend/bridge/dispatch.h"
#include "backend/own_kernels/eager_task.h"
#include "base/error.h"
#include "libraries/launch.h"
#include "ops/table.h"
#include "program/definition.h"

namespace npugraph::bridge {
namespace {

using c10::IValue;
using c10::OperatorHandle;
using torch::jit::Stack;

// One eager call: the task of the kernel, for these arguments only.
class Call {
 public:
  explicit Call(const libraries::Kernel& kernel)
      : kernel_(kernel), name_(operator_of(kernel.launches != nullptr ? *kernel.launches : kernel)) {
    task_.kind = program::TaskKind::kKernel;
    task_.name = kernel.schema.name;
    task_.schema = kernel.schema.text;
  }

  void add_argument(const IValue& value, const c10::Argument& argument) {
    const bool is_written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    const auto access = is_written ? program::Access::kReadWrite : program::Access::kRead;
    auto attr = to_attr(value, argument, [&](const at::Tensor& tensor) { return TensorRef{operand(tensor, access)}; });
    TORCH_CHECK_NOT_IMPLEMENTED(attr, name_, ": no kernel of a library takes the value of its argument '",
                                argument.name(), "', a ", value.tagKind());
    task_.args.push_back(std::move(*attr));
  }

  at::Tensor add_result(const at::Tensor& meta) {
    at::Tensor made = at::empty_strided(meta.sizes(), meta.strides(), meta.options().device(c10::kCPU));
    task_.results.push_back(operand(made, program::Access::kWrite));
    return made;
  }

  void run() {
    std::vector<ng_buffer> buffers;
    for (size_t i = 0; i < tensors_.size(); ++i)
      buffers.push_back(own::buffer_of(tensors_[i], static_cast<int32_t>(task_.operands[i].dtype)));
    const own::EagerTask task(program::make_task(kernel_.make, task_));
    const auto error = task.run(buffers);
    TORCH_CHECK(!error, name_, ": ", error->empty() ? "the kernel refuses these arguments" : *error,
                " (the kernel is in '", kernel_.library, "')");
  }

 private:
  int32_t operand(const at::Tensor& tensor, program::Access access) {
    const auto dtype = from_torch(tensor.scalar_type());
    TORCH_CHECK_NOT_IMPLEMENTED(dtype && tensor.layout() == at::kStrided, name_,
                                ": no kernel of a library takes a tensor of ", tensor.scalar_type(), ", ",
                                tensor.layout());
    program::Operand made;
    made.access = access;
    made.dtype = *dtype;
    for (const int64_t size : tensor.sizes()) made.sizes.push_back({size});
    for (const int64_t stride : tensor.strides()) made.strides.push_back({stride});
    task_.operands.push_back(std::move(made));
    tensors_.push_back(tensor);
    return static_cast<int32_t>(tensors_.size()) - 1;
  }

  const libraries::Kernel& kernel_;
  const c10::OperatorName name_;  // of the operator that the user knows
  program::Task task_;
  std::vector<at::Tensor> tensors_;  // one for each operand
};

IValue on_meta(const IValue& value) {
  const auto of = [](const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kMeta));
  };
  if (value.isTensor()) return of(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(of(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      list.push_back(tensor ? std::make_optional(of(*tensor)) : std::nullopt);
    return list;
  }
  return value;
}

std::string names_of_arguments(const c10::FunctionSchema& schema) {
  std::string names;
  for (const c10::Argument& argument : schema.arguments()) names += cat(names.empty() ? "" : ", ", argument.name());
  return names;
}

bool is_new(const c10::Argument& result) { return result.alias_info() == nullptr; }

// The types of the results, as tensors on meta.
Stack meta_results(const OperatorHandle& op, std::span<const IValue> args) {
  const std::string name = toString(op.operator_name());
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasKernelForDispatchKey(c10::DispatchKey::Meta), name,
                              " has no Meta function, which says the sizes and the type of each result. Add one:\n\n"
                              "    @torch.library.register_fake(\"",
                              name, "\")\n    def _(", names_of_arguments(op.schema()),
                              "):\n        return ...  # for example x.new_empty(x.shape)\n");
  Stack stack;
  for (const IValue& value : args) stack.push_back(on_meta(value));
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  TORCH_CHECK(stack.size() == op.schema().returns().size(), "the Meta function of ", name, " returned ", stack.size(),
              " results, the schema has ", op.schema().returns().size());
  return stack;
}

// The argument that a result is: the one that is written under the same letter.
size_t position_of(const c10::FunctionSchema& schema, const c10::Argument& result) {
  size_t position = 0;
  while (schema.arguments()[position].alias_info() == nullptr ||
         *schema.arguments()[position].alias_info() != *result.alias_info())
    ++position;
  return position;
}

class EagerKernel final : public c10::OperatorKernel {
 public:
  explicit EagerKernel(const libraries::Kernel& kernel) : kernel_(kernel) {}

  void operator()(const OperatorHandle& op, c10::DispatchKeySet, Stack* stack) const {
    const c10::FunctionSchema& schema = op.schema();
    const size_t count = schema.arguments().size(), begin = stack->size() - count;
    const std::span<const IValue> args(stack->data() + begin, count);
    Call call(kernel_);
    for (size_t i = 0; i < count; ++i) call.add_argument(args[i], schema.arguments()[i]);
    const auto& returns = schema.returns();
    const Stack types = std::ranges::any_of(returns, is_new) ? meta_results(op, args) : Stack();
    Stack results;
    for (size_t i = 0; i < returns.size(); ++i)
      results.push_back(is_new(returns[i]) ? IValue(call.add_result(types[i].toTensor()))
                                           : args[position_of(schema, returns[i])]);
    call.run();
    stack->resize(begin);
    std::ranges::move(results, std::back_inserter(*stack));
  }

 private:
  const libraries::Kernel& kernel_;
};

void check_schema(const libraries::Kernel& kernel) {
  const auto known = c10::Dispatcher::singleton().findSchema(operator_of(kernel));
  if (!known) return;
  const std::string schema = c10::toString(known->schema());
  if (!libraries::same(kernel.schema, ops::parse_schema(schema)))
    throw UserError(cat("the kernel of ", kernel.schema.name, " in '", kernel.library, "' is for the schema\n  ",
                        kernel.schema.text, "\nand torch knows the operator with\n  ", schema));
}

// Definitions end with their library object, so it lives as long as the process.
torch::Library& library_of(const c10::OperatorName& name) {
  return *new torch::Library(torch::Library::FRAGMENT, std::string(name.getNamespace().value()), std::nullopt, __FILE__,
                             __LINE__);
}

std::string local_name(const c10::OperatorName& name) {
  return toString(name).substr(name.getNamespace().value().size() + 2);
}

torch::CppFunction eager(const libraries::Kernel& kernel) {
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<EagerKernel>(kernel));
}

void define(const libraries::Kernel& kernel) {
  const c10::OperatorName name = operator_of(kernel);
  auto& dispatcher = c10::Dispatcher::singleton();
  torch::Library& library = library_of(name);
  if (!dispatcher.findSchema(name)) library.def(kernel.schema.text.c_str(), {at::Tag::pt2_compliant_tag});
  const auto op = dispatcher.findSchema(name);
  const bool has_kernel = op->hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
                          op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
                          op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  if (!has_kernel) library.impl(local_name(name).c_str(), c10::DispatchKey::CPU, eager(kernel));
}

void do_nothing(const OperatorHandle& op, Stack* stack) { torch::jit::drop(*stack, op.schema().arguments().size()); }

void define_launch(const libraries::Kernel& launch) {
  const c10::OperatorName name = operator_of(launch);
  torch::Library& library = library_of(name);
  library.def(launch.schema.text.c_str(), {at::Tag::pt2_compliant_tag});
  library.impl(local_name(name).c_str(), c10::DispatchKey::CPU, eager(launch));
  library.impl(local_name(name).c_str(), c10::DispatchKey::Meta,
               torch::CppFunction::makeFromBoxedFunction<&do_nothing>());
}

}  // namespace

c10::OperatorName operator_of(const libraries::Kernel& kernel) {
  const std::string_view text = kernel.schema.text;
  const std::string_view name = text.substr(0, text.find('('));
  const size_t dot = name.find('.');
  return {std::string(name.substr(0, dot)), dot == name.npos ? "" : std::string(name.substr(dot + 1))};
}

void define_operators(const std::vector<const libraries::Kernel*>& kernels) {
  static std::mutex mutex;
  static auto* defined = new std::set<const libraries::Kernel*>;
  const std::lock_guard lock(mutex);
  for (const libraries::Kernel* kernel : kernels) check_schema(*kernel);
  for (const libraries::Kernel* kernel : kernels)
    if (defined->insert(kernel).second) {
      define(*kernel);
      if (kernel->launch != nullptr) define_launch(*kernel->launch);
    }
}

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
