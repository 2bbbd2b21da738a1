// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/framework/call_arguments.h"

namespace npugraph::npu_ops {

std::vector<int64_t> values_of(const Tensor& integers) {
  const Tensor numbers = integers.to(at::kLong).contiguous();
  const int64_t* first = numbers.const_data_ptr<int64_t>();
  return {first, first + numbers.numel()};
}

namespace {

// Operators with many arguments look up most of them in each call. Our operators are never removed, nor their schemas.
const ArgumentPositions& positions_in(const c10::FunctionSchema& schema) {
  thread_local std::unordered_map<const c10::FunctionSchema*, ArgumentPositions> known;
  const auto [entry, is_new] = known.try_emplace(&schema);
  if (is_new) {
    for (size_t i = 0; i < schema.arguments().size(); ++i) entry->second.emplace(schema.arguments()[i].name(), i);
  }
  return entry->second;
}

}  // namespace

CallArguments::CallArguments(const c10::OperatorHandle& op, torch::jit::Stack* stack)
    : op_(op.operator_name().name.substr(op.operator_name().name.find(':') + 2)),
      positions_(positions_in(op.schema())),
      stack_(stack) {
  const auto given = torch::jit::last(*stack, positions_.size());
  arguments_.assign(given.begin(), given.end());
}

const c10::IValue* CallArguments::find(Names names) const {
  for (const char* name : names) {
    const auto position = positions_.find(name);
    if (position != positions_.end() && !arguments_[position->second].isNone()) return &arguments_[position->second];
  }
  return nullptr;
}

const Tensor& CallArguments::tensor(Names names) const {
  const c10::IValue* value = find(names);
  TORCH_CHECK(value != nullptr && value->toTensor().defined(), op_, ": ", *names.begin(), " is missing");
  return value->toTensor();
}

Tensor CallArguments::optional_tensor(Names names) const {
  const c10::IValue* value = find(names);
  return value == nullptr ? Tensor() : value->toTensor();
}

OptionalTensor CallArguments::given_tensor(Names names) const {
  const Tensor out = optional_tensor(names);
  return out.defined() ? OptionalTensor(out) : std::nullopt;
}

std::vector<Tensor> CallArguments::tensors(Names names) const {
  const c10::IValue* value = find(names);
  return value == nullptr ? std::vector<Tensor>() : value->toTensorVector();
}

bool CallArguments::is_tensor(Names names) const {
  const c10::IValue* value = find(names);
  return value != nullptr && value->isTensor();
}

std::optional<std::vector<int64_t>> CallArguments::integers(Names names) const {
  const c10::IValue* value = find(names);
  if (value == nullptr) return std::nullopt;
  if (value->isTensor()) return values_of(value->toTensor());
  if (value->isIntList()) return value->toIntVector();
  std::vector<int64_t> out;
  for (const c10::IValue& element : value->toListRef())
    out.push_back(element.isInt() ? element.toInt() : element.toSymInt().guard_int(__FILE__, __LINE__));
  return out;
}

std::optional<int64_t> CallArguments::optional_integer(Names names) const {
  const c10::IValue* value = find(names);
  return value == nullptr ? std::nullopt : std::make_optional(value->toInt());
}

int64_t CallArguments::integer(Names names, int64_t fallback) const {
  return optional_integer(names).value_or(fallback);
}

double CallArguments::number(Names names, double fallback) const {
  const c10::IValue* value = find(names);
  if (value == nullptr) return fallback;
  return value->isInt() ? static_cast<double>(value->toInt()) : value->toDouble();
}

bool CallArguments::flag(Names names) const {
  const c10::IValue* value = find(names);
  return value != nullptr && value->toBool();
}

std::string CallArguments::text(Names names) const {
  const c10::IValue* value = find(names);
  return value == nullptr || !value->isString() ? std::string() : value->toStringRef();
}

}  // namespace npugraph::npu_ops
