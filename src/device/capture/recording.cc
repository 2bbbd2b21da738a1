// SPDX-License-Identifier: Apache-2.0
#include "device/capture/recording.h"

#include <algorithm>
#include <string>
#include <utility>

#include <ATen/Operators.h>

#include "backend/bridge/convert.h"
#include "base/error.h"
#include "device/npu/tensor.h"
#include "libraries/library.h"

namespace npugraph::capture {

using program::Access;
using program::kNone;

namespace {

std::vector<program::Dim> dims(at::IntArrayRef numbers) {
  std::vector<program::Dim> out;
  for (const int64_t number : numbers) out.push_back({number});
  return out;
}

program::Operand window(const std::string& task, const at::Tensor& tensor, int32_t piece, Access access) {
  const auto dtype = bridge::from_torch(tensor.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(dtype && tensor.layout() == at::kStrided && !tensor.is_conj() && !tensor.is_neg(), task,
                              ": a graph cannot capture a tensor of ", tensor.scalar_type(), ", ", tensor.layout(),
                              tensor.is_conj() ? ", lazily conjugated" : "", tensor.is_neg() ? ", lazily negated" : "",
                              "; resolve_conj() and resolve_neg() help");
  program::Operand made;
  made.buffer = piece;
  made.access = access;
  made.dtype = *dtype;
  made.byte_offset = {tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize())};
  made.sizes = dims(tensor.sizes());
  made.strides = dims(tensor.strides());
  return made;
}

class Description {
 public:
  Description(const c10::OperatorHandle& op, TouchedMemory& memory, int32_t step)
      : schema_(op.schema()), memory_(memory), step_(step) {
    made_.task.kind = program::TaskKind::kAten;
    made_.task.name = bridge::fx_name_of(op.operator_name());
    made_.task.foreign = bridge::is_foreign(op.operator_name().getNamespace().value_or(""));
    made_.task.schema = c10::toString(schema_);
    made_.task.reason = "captured";
  }

  void add_argument(size_t position, const c10::IValue& value) {
    access_ = is_written(schema_, position) ? Access::kReadWrite : Access::kRead;
    for_each_tensor(value, [&](const at::Tensor& tensor) { note_argument(tensor); });
    auto attr = attr_of(value, schema_.arguments()[position]);
    made_.task.args.push_back(attr.value_or(None{}));
    if (!attr) made_.fixed.push_back({position, value});
  }

  void add_results(std::span<const c10::IValue> results) {
    for (const c10::IValue& value : results) {
      for_each_tensor(value, [&](const at::Tensor& tensor) { made_storages_.push_back(storage_of(tensor)); });
    }
    for (const c10::IValue& value : results) add_result(value);
  }

  // A call of an operator with a kernel of a library is a task of that kernel.
  RecordedTask take() {
    const libraries::Kernel* kernel = libraries::find(made_.task.name);
    if (kernel != nullptr && made_.fixed.empty()) {
      made_.task.kind = program::TaskKind::kKernel;
      made_.task.schema = kernel->schema.text;
      made_.task.foreign = false;
    }
    return std::move(made_);
  }

 private:
  static const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
    return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  }

  void note_argument(const at::Tensor& tensor) { argument_storages_.push_back(storage_of(tensor)); }

  void add_result(const c10::IValue& value) {
    if (value.isTensor()) return made_.task.results.push_back(result_operand(value.toTensor()));
    if (!value.isTensorList()) return made_.task.results.push_back(kNone);
    for (const at::Tensor& tensor : value.toTensorVector()) made_.task.results.push_back(result_operand(tensor));
  }

  // kNone for arguments and views of them, which are no new memory.
  int32_t result_operand(const at::Tensor& tensor) {
    if (!tensor.defined() || std::ranges::count(argument_storages_, storage_of(tensor)) != 0) return kNone;
    const bool is_whole = std::ranges::count(made_storages_, storage_of(tensor)) == 1 && tensor.storage_offset() == 0;
    return operand(tensor, memory_.result(tensor, step_, is_whole), Access::kWrite);
  }

  int32_t operand(const at::Tensor& tensor, int32_t piece, Access access) {
    made_.task.operands.push_back(window(made_.task.name, tensor, piece, access));
    return static_cast<int32_t>(made_.task.operands.size()) - 1;
  }

  TensorRef ref(const at::Tensor& tensor) {
    // Operators read host tensors when they are launched; only copies read them, as pinned memory, at each replay.
    const bool is_value =
        tensor.device().is_cpu() && access_ == Access::kRead && schema_.name() != at::_ops::copy_::name;
    const int32_t piece = is_value ? memory_.constant(tensor, step_) : memory_.argument(tensor, step_);
    const at::Tensor placed = is_value ? memory_.piece(piece).constant : tensor;
    return {operand(placed, piece, access_)};
  }

  // Returns nullopt for values that a Program cannot hold, such as generators.
  std::optional<Attr> attr_of(const c10::IValue& value, const c10::Argument& argument) {
    const bool is_number =
        value.isTensor() && value.toTensor().defined() && value.toTensor().unsafeGetTensorImpl()->is_wrapped_number();
    if (is_number) return bridge::number_attr(value.toTensor().item());
    return bridge::to_attr(value, argument, [&](const at::Tensor& tensor) { return ref(tensor); });
  }

  const c10::FunctionSchema& schema_;
  TouchedMemory& memory_;
  const int32_t step_;
  RecordedTask made_;
  Access access_ = Access::kRead;  // of the current argument
  std::vector<const c10::StorageImpl*> argument_storages_;
  std::vector<const c10::StorageImpl*> made_storages_;
};

// Arguments that are written though the schema does not say so: running statistics of a norm in training,
// and `Tensor[] out` of overloads "out" of attention.
bool is_written_silently(const c10::FunctionSchema& schema, const std::string& argument) {
  const bool is_norm =
      schema.name() == at::_ops::native_batch_norm::name || schema.name() == at::_ops::batch_norm_update_stats::name;
  if (is_norm) return argument == "running_mean" || argument == "running_var";
  return argument == "out" && schema.overload_name() == "out";
}

}  // namespace

bool is_written(const c10::FunctionSchema& schema, size_t position) {
  const c10::Argument& argument = schema.arguments()[position];
  const c10::AliasInfo* alias = argument.alias_info();
  return alias != nullptr ? alias->isWrite() : is_written_silently(schema, argument.name());
}

RecordedTask describe_launch(const c10::OperatorHandle& op, std::span<const c10::IValue> args,
                             std::span<const c10::IValue> results, TouchedMemory& memory, int32_t step) {
  Description description(op, memory, step);
  for (size_t position = 0; position < args.size(); ++position) description.add_argument(position, args[position]);
  description.add_results(results);
  return description.take();
}

RecordedTask describe_collective(const std::string& name, const BegunCollective& begun, TouchedMemory& memory,
                                 int32_t step) {
  RecordedTask made;
  made.collective = begun.call;
  program::Task& task = made.task;
  task.kind = program::TaskKind::kCollective;
  task.name = name;
  task.reason = "captured";
  const auto refs = [&](const Tensors& tensors, Access access) {
    std::vector<TensorRef> out;
    for (const at::Tensor& tensor : tensors) {
      out.push_back({static_cast<int32_t>(task.operands.size())});
      task.operands.push_back(window(name, tensor, memory.argument(tensor, step), access));
    }
    return out;
  };
  task.args.emplace_back(refs(begun.inputs, Access::kRead));
  // Elements of an output that are not written, as on ranks other than the root, are part of the result, too.
  task.args.emplace_back(refs(begun.outputs, Access::kReadWrite));
  task.args.emplace_back(begun.call->group());
  return made;
}

}  // namespace npugraph::capture
