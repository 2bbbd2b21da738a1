// SPDX-License-Identifier: Apache-2.0
#include "torch/capture/describe_launch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "torch/bridge/convert.h"
#include "torch/npu/tensor.h"

namespace npugraph::capture {

using program::Access;
using program::kNone;

namespace {

std::vector<program::Dim> dims(at::IntArrayRef numbers) {
  std::vector<program::Dim> out;
  for (const int64_t number : numbers) out.push_back({number});
  return out;
}

const c10::Type& without_optional(const c10::Type& type) {
  return type.kind() == c10::TypeKind::OptionalType ? *type.castRaw<c10::OptionalType>()->getElementType() : type;
}

Expr number(const at::Scalar& value) {
  if (value.isBoolean()) return Expr::constant(Scalar::of_bool(value.toBool()));
  if (value.isFloatingPoint()) return Expr::constant(Scalar::of_float(value.toDouble()));
  return Expr(value.toLong());
}

Attr number_attr(const at::Scalar& value) {
  if (value.isComplex()) return std::complex<double>(value.toComplexDouble());
  return number(value);
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
    auto attr = attr_of(value, without_optional(*schema_.arguments()[position].real_type()));
    made_.task.args.push_back(attr.value_or(None{}));
    if (!attr) made_.fixed.push_back({position, value});
  }

  void add_results(std::span<const c10::IValue> results) {
    for (const c10::IValue& value : results) {
      for_each_tensor(value, [&](const at::Tensor& tensor) { made_storages_.push_back(storage_of(tensor)); });
    }
    for (const c10::IValue& value : results) add_result(value);
  }

  RecordedTask take() { return std::move(made_); }

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
    if (!tensor.defined()) return {};
    // Operators read host tensors when they are launched; only copies read them, as pinned memory, at each replay.
    const bool is_value =
        tensor.device().is_cpu() && access_ == Access::kRead && schema_.name() != at::_ops::copy_::name;
    const int32_t piece = is_value ? memory_.constant(tensor, step_) : memory_.argument(tensor, step_);
    const at::Tensor placed = is_value ? memory_.piece(piece).constant : tensor;
    return {operand(placed, piece, access_)};
  }

  Attr tensor_attr(const at::Tensor& tensor) {
    if (!tensor.defined()) return None{};
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return number_attr(tensor.item());
    return ref(tensor);
  }

  static std::optional<Attr> int_attr(int64_t value, const c10::Type& type) {
    switch (type.kind()) {
      case c10::TypeKind::ScalarTypeType: {
        const auto dtype = bridge::from_torch(static_cast<at::ScalarType>(value));
        return dtype ? std::make_optional<Attr>(*dtype) : std::nullopt;
      }
      case c10::TypeKind::LayoutType: return bridge::from_torch(static_cast<at::Layout>(value));
      case c10::TypeKind::MemoryFormatType: return bridge::from_torch(static_cast<at::MemoryFormat>(value));
      default: return Expr(value);
    }
  }

  template <typename List>
  static Attr numbers(const List& list) {
    std::vector<Expr> out;
    for (const auto& value : list) out.push_back(number(value));
    return out;
  }

  std::optional<Attr> list_attr(const c10::IValue& value) {
    if (value.isTensorList()) {
      std::vector<TensorRef> refs;
      for (const at::Tensor& tensor : value.toTensorVector()) refs.push_back(ref(tensor));
      return refs;
    }
    if (value.isIntList()) return numbers(value.toIntVector());
    if (value.isDoubleList()) return numbers(value.toDoubleVector());
    const auto items = value.toListRef();
    const auto all = [&](bool (c10::IValue::*is)() const) {
      return std::ranges::all_of(items, [&](const c10::IValue& item) { return (item.*is)(); });
    };
    if (std::ranges::all_of(items, [](const c10::IValue& item) { return item.isNone() || item.isTensor(); })) {
      std::vector<TensorRef> refs;
      for (const c10::IValue& item : items) refs.push_back(item.isNone() ? TensorRef{} : ref(item.toTensor()));
      return refs;
    }
    if (all(&c10::IValue::isString)) {
      std::vector<std::string> texts;
      for (const c10::IValue& item : items) texts.push_back(item.toStringRef());
      return texts;
    }
    if (!all(&c10::IValue::isScalar) || all(&c10::IValue::isComplexDouble)) return std::nullopt;
    std::vector<Expr> out;
    for (const c10::IValue& item : items) out.push_back(number(item.toScalar()));
    return out;
  }

  // Returns nullopt for values that a Program cannot hold, such as generators.
  std::optional<Attr> attr_of(const c10::IValue& value, const c10::Type& type) {
    if (value.isNone()) return None{};
    if (value.isTensor()) return tensor_attr(value.toTensor());
    if (value.isInt()) return int_attr(value.toInt(), type);
    if (value.isScalar()) return number_attr(value.toScalar());
    if (value.isDevice()) return bridge::from_torch(value.toDevice());
    if (value.isString()) return value.toStringRef();
    if (value.isList()) return list_attr(value);
    return std::nullopt;
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
