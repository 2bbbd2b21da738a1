// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes/promote.h"

#include <algorithm>

namespace npugraph::ops {
namespace {

DType to_complex(DType dtype) { return is_complex(dtype) ? dtype : complex_of(dtype).value_or(DType::kC64); }

int class_of(DType dtype) {
  if (is_complex(dtype)) return 3;
  if (is_floating(dtype)) return 2;
  return dtype == DType::kBool ? 0 : 1;
}

std::optional<DType> promote_integers(DType a, DType b) {
  const auto is_wide_unsigned = [](DType t) { return t == DType::kU16 || t == DType::kU32 || t == DType::kU64; };
  if (is_wide_unsigned(a) || is_wide_unsigned(b)) return std::nullopt;
  if (size_of(a) != size_of(b)) return size_of(a) > size_of(b) ? a : b;
  return DType::kI16;  // u8 with i8
}

std::optional<DType> promote_floats(DType a, DType b) {
  if (size_of(a) != size_of(b)) return size_of(a) > size_of(b) ? a : b;
  return DType::kF32;  // f16 with bf16
}

// The common type of the operands of each of the three ranks; empty until an operand of that rank is seen.
struct Ranks {
  std::optional<DType> tensors;
  std::optional<DType> scalars;  // tensors without dimensions
  std::optional<DType> numbers;
};

bool merge(std::optional<DType>& into, DType dtype) {
  into = into ? promote(*into, dtype) : dtype;
  return into.has_value();
}

std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher || !lower) return higher ? higher : lower;
  if (is_complex(*higher)) return higher;
  if (is_floating(*higher)) return is_complex(*lower) ? to_complex(*higher) : higher;
  if (class_of(*lower) > class_of(*higher) && (class_of(*lower) >= 2 || *higher == DType::kBool))
    return promote(*higher, *lower);
  return higher;
}

DType type_of_number(const Attr& number, DType default_float) {
  if (std::holds_alternative<std::complex<double>>(number)) return to_complex(default_float);
  switch (std::get<Expr>(number).kind()) {
    case ScalarKind::kBool: return DType::kBool;
    case ScalarKind::kFloat: return default_float;
    default: return DType::kI64;
  }
}

std::optional<DType> result_type(const Call& call, const std::vector<size_t>& args, DType default_float) {
  Ranks ranks;
  for (const size_t i : args) {
    const Attr& arg = call.args[i];
    if (std::holds_alternative<None>(arg)) continue;
    const auto* tensor = call.tensor(i);
    const bool is_number = std::holds_alternative<Expr>(arg) || std::holds_alternative<std::complex<double>>(arg);
    if (tensor == nullptr && !is_number) return std::nullopt;
    const DType dtype = tensor != nullptr ? tensor->dtype : type_of_number(arg, default_float);
    auto& rank = tensor == nullptr ? ranks.numbers : (tensor->sizes.empty() ? ranks.scalars : ranks.tensors);
    if (!merge(rank, dtype)) return std::nullopt;
  }
  return combine(ranks.tensors, combine(ranks.scalars, ranks.numbers));
}

}  // namespace

DType real_of(DType dtype) {
  switch (dtype) {
    case DType::kC32: return DType::kF16;
    case DType::kC64: return DType::kF32;
    case DType::kC128: return DType::kF64;
    default: return dtype;
  }
}

std::optional<DType> complex_of(DType part) {
  switch (part) {
    case DType::kF16: return DType::kC32;
    case DType::kF32: return DType::kC64;
    case DType::kF64: return DType::kC128;
    default: return std::nullopt;
  }
}

std::optional<DType> promote(DType a, DType b) {
  if (a == b) return a;
  const auto is_narrow = [](DType t) { return is_floating(t) && size_of(t) == 1; };
  if (is_narrow(a) || is_narrow(b)) return std::nullopt;
  const int higher = std::max(class_of(a), class_of(b));
  if (higher == 3) {
    const DType x = to_complex(is_complex(a) || is_floating(a) ? a : b);
    const DType y = to_complex(is_complex(b) || is_floating(b) ? b : a);
    return size_of(x) > size_of(y) ? x : y;
  }
  if (class_of(a) != class_of(b)) return class_of(a) > class_of(b) ? a : b;
  return higher == 2 ? promote_floats(a, b) : promote_integers(a, b);
}

std::optional<DType> result_type(const Call& call, const std::vector<size_t>& args) {
  const auto in_f32 = result_type(call, args, DType::kF32);
  const auto in_f64 = result_type(call, args, DType::kF64);
  const auto in_f16 = result_type(call, args, DType::kF16);
  return in_f32 == in_f64 && in_f32 == in_f16 ? in_f32 : std::nullopt;
}

std::optional<DType> result_type(const std::vector<const ir::TensorType*>& tensors) {
  Ranks ranks;
  for (const auto* tensor : tensors) {
    if (!merge(tensor->sizes.empty() ? ranks.scalars : ranks.tensors, tensor->dtype)) return std::nullopt;
  }
  return combine(ranks.tensors, ranks.scalars);
}

}  // namespace npugraph::ops
