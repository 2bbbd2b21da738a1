// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <complex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/jit_type.h>

#include "backend/bridge/convert.h"

namespace npugraph::bridge {
namespace {

using c10::IValue;

const c10::Type& without_optional(const c10::Type& type) {
  return type.kind() == c10::TypeKind::OptionalType ? *type.castRaw<c10::OptionalType>()->getElementType() : type;
}

Expr number(const at::Scalar& value) {
  if (value.isBoolean()) return Expr::constant(Scalar::of_bool(value.toBool()));
  if (value.isFloatingPoint()) return Expr::constant(Scalar::of_float(value.toDouble()));
  return Expr(value.toLong());
}

std::optional<Attr> int_attr(int64_t value, const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::ScalarTypeType: {
      const auto dtype = from_torch(static_cast<at::ScalarType>(value));
      return dtype ? std::make_optional<Attr>(*dtype) : std::nullopt;
    }
    case c10::TypeKind::LayoutType: return from_torch(static_cast<at::Layout>(value));
    case c10::TypeKind::MemoryFormatType: return from_torch(static_cast<at::MemoryFormat>(value));
    default: return Expr(value);
  }
}

template <typename List>
Attr numbers(const List& list) {
  std::vector<Expr> out;
  for (const auto& value : list) out.push_back(number(value));
  return out;
}

std::optional<Attr> list_attr(const IValue& value, c10::function_ref<TensorRef(const at::Tensor&)> tensor) {
  if (value.isIntList()) return numbers(value.toIntVector());
  if (value.isDoubleList()) return numbers(value.toDoubleVector());
  const auto items = value.toListRef();
  const auto all = [&](bool (IValue::*is)() const) {
    return std::ranges::all_of(items, [&](const IValue& item) { return (item.*is)(); });
  };
  const auto is_tensor = [](const IValue& item) { return item.isNone() || item.isTensor(); };
  if (value.isTensorList() || std::ranges::all_of(items, is_tensor)) {
    std::vector<TensorRef> refs;
    for (const IValue& item : items)
      refs.push_back(item.isTensor() && item.toTensor().defined() ? tensor(item.toTensor()) : TensorRef{});
    return refs;
  }
  if (all(&IValue::isString)) {
    std::vector<std::string> texts;
    for (const IValue& item : items) texts.push_back(item.toStringRef());
    return texts;
  }
  if (!all(&IValue::isScalar) || all(&IValue::isComplexDouble)) return std::nullopt;
  std::vector<Expr> out;
  for (const IValue& item : items) out.push_back(number(item.toScalar()));
  return out;
}

}  // namespace

Attr number_attr(const at::Scalar& value) {
  if (value.isComplex()) return std::complex<double>(value.toComplexDouble());
  return number(value);
}

std::optional<Attr> to_attr(const IValue& value, const c10::Argument& argument,
                            c10::function_ref<TensorRef(const at::Tensor&)> tensor) {
  if (value.isNone()) return None{};
  if (value.isTensor()) return value.toTensor().defined() ? Attr(tensor(value.toTensor())) : Attr(None{});
  if (value.isInt()) return int_attr(value.toInt(), without_optional(*argument.real_type()));
  if (value.isScalar()) return number_attr(value.toScalar());
  if (value.isDevice()) return from_torch(value.toDevice());
  if (value.isString()) return value.toStringRef();
  if (value.isList()) return list_attr(value, tensor);
  return std::nullopt;
}

}  // namespace npugraph::bridge
