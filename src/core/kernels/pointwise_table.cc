// SPDX-License-Identifier: Apache-2.0
// The elementwise operations. Each result equals ATen's, or one of ATen's results if its vectorised code and its scalar
// tail differ. Neg, abs, relu, minimum and maximum only move bits: they keep denormals even if the control word flushes
// them.
#include <array>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "kernels/elements.h"
#include "kernels/kernel_table.h"
#include "kernels/kernel_task.h"
#include "kernels/pointwise.h"

namespace npugraph::kernels {
namespace {

// Rows of elementwise operations, made from the operation on one element.

// Op has `static Out apply(In...)`.
template <typename Op, typename Out, typename... In>
class PointwiseRows {
 public:
  static PointwiseOp op(std::vector<DType> inputs, DType result) { return {run, element, std::move(inputs), result}; }

 private:
  static constexpr size_t kArity = sizeof...(In);
  using Inputs = std::index_sequence_for<In...>;
  template <size_t i>
  using Input = std::tuple_element_t<i, std::tuple<In...>>;

  template <size_t... i>
  static void run_element(const std::array<const char*, kMaxWindows>& inputs, char* result, std::index_sequence<i...>) {
    *reinterpret_cast<Out*>(result) = Op::apply(*reinterpret_cast<const Input<i>*>(inputs[i])...);
  }
  static void element(const std::array<const char*, kMaxWindows>& inputs, char* result) {
    run_element(inputs, result, Inputs{});
  }

  // Computes a row in which all windows are dense, except that the inputs in the bit set `repeated` repeat one element.
  template <unsigned repeated, size_t... i>
  static void run_dense(const Row& row, std::index_sequence<i...>) {
    const std::tuple<const In*...> in{reinterpret_cast<const In*>(row.data[i])...};
    const std::tuple<In...> first{*std::get<i>(in)...};
    Out* out = reinterpret_cast<Out*>(row.data[kArity]);
    // The result may be in the memory of an input, element by element, but never shifted against it.
#pragma GCC ivdep
    for (int64_t j = 0; j < row.count; ++j) {
      out[j] = Op::apply(((repeated >> i & 1) != 0 ? std::get<i>(first) : std::get<i>(in)[j])...);
    }
  }

  template <unsigned repeated = 0>
  static bool try_dense(const Row& row, unsigned wanted) {
    if constexpr (repeated < (1u << kArity)) {
      if (wanted != repeated) return try_dense<repeated + 1>(row, wanted);
      run_dense<repeated>(row, Inputs{});
      return true;
    } else {
      return false;
    }
  }

  static void run(const Row& row) {
    constexpr std::array<int64_t, kArity> kBytes{sizeof(In)...};
    bool dense = row.strides[kArity] == static_cast<int64_t>(sizeof(Out));
    unsigned repeated = 0;
    for (size_t i = 0; i < kArity; ++i) {
      repeated |= static_cast<unsigned>(row.strides[i] == 0) << i;
      dense &= row.strides[i] == 0 || row.strides[i] == kBytes[i];
    }
    if (dense && try_dense(row, repeated)) return;
    Row at = row;
    for (int64_t j = 0; j < row.count; ++j) {
      std::array<const char*, kMaxWindows> inputs{};
      for (size_t i = 0; i < kArity; ++i) inputs[i] = at.data[i];
      run_element(inputs, at.data[kArity], Inputs{});
      for (size_t w = 0; w <= kArity; ++w) at.data[w] += at.strides[w];
    }
  }
};

// Integers wrap around.
template <typename T>
auto wrapping(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(x);
  } else {
    return x;
  }
}

struct Neg {
  template <typename T>
  static T apply(T x) {
    return static_cast<T>(-wrapping(x));
  }
};
struct Abs {
  template <typename T>
  static T apply(T x) {
    if constexpr (std::is_integral_v<T>) {
      return x < 0 ? static_cast<T>(-wrapping(x)) : x;
    } else {
      return std::fabs(x);
    }
  }
};
struct Relu {  // keeps NaN and -0
  template <typename T>
  static T apply(T x) {
    return T{0} > x ? T{0} : x;
  }
};
struct Sqrt {
  static float apply(float x) { return std::sqrt(x); }
};
struct Rsqrt {
  static float apply(float x) { return 1.0f / std::sqrt(x); }
};
struct Reciprocal {
  static float apply(float x) { return 1.0f / x; }
};
struct Square {
  template <typename T>
  static T apply(T x) {
    return static_cast<T>(wrapping(x) * wrapping(x));
  }
};
struct LogicalNot {
  static bool apply(bool x) { return !x; }
};

struct Add {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(wrapping(a) + wrapping(b));
  }
};
struct Sub {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(wrapping(a) - wrapping(b));
  }
};
struct Mul {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(wrapping(a) * wrapping(b));
  }
};
struct Div {
  static float apply(float a, float b) { return a / b; }
};
struct Maximum {  // NaN where an input is NaN
  template <typename T>
  static T apply(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Minimum {
  template <typename T>
  static T apply(T a, T b) {
    return a < b || a != a ? a : b;
  }
};
// Op in f32 if one operand is i64.
template <typename Op>
struct InF32 {
  template <typename A, typename B>
  static float apply(A a, B b) {
    return Op::apply(static_cast<float>(a), static_cast<float>(b));
  }
};
struct Eq {
  template <typename T>
  static bool apply(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <typename T>
  static bool apply(T a, T b) {
    return a != b;
  }
};
struct Lt {
  template <typename T>
  static bool apply(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <typename T>
  static bool apply(T a, T b) {
    return a <= b;
  }
};
struct Gt {
  template <typename T>
  static bool apply(T a, T b) {
    return a > b;
  }
};
struct Ge {
  template <typename T>
  static bool apply(T a, T b) {
    return a >= b;
  }
};
struct LogicalAnd {
  static bool apply(bool a, bool b) { return a && b; }
};
struct LogicalOr {
  static bool apply(bool a, bool b) { return a || b; }
};
struct LogicalXor {
  static bool apply(bool a, bool b) { return a != b; }
};
struct Where {
  template <typename T>
  static T apply(bool condition, T a, T b) {
    return condition ? a : b;
  }
};

// Requires an operand.
DType result_type(const ng_definition& task) { return dtype_of(task.operands[task.num_operands - 1]); }

// The type of the first tensor among the arguments from `first` on, else that of the result.
DType input_type(const ng_definition& task, size_t first = 0) {
  const Arguments arguments(task);
  for (size_t i = first; i < task.num_attributes; ++i) {
    const Argument argument = arguments[i];
    if (argument.is_tensor() && argument.operand < static_cast<int32_t>(task.num_operands)) {
      return dtype_of(task.operands[argument.operand]);
    }
  }
  if (task.num_operands == 0) refuse(task, "has no operands");
  return result_type(task);
}

[[noreturn]] void refuse_type(const ng_definition& task, DType dtype) {
  refuse(task, cat("does not take ", name_of(dtype)));
}

template <typename Op>
PointwiseOp unary_f32(const ng_definition&) {
  return PointwiseRows<Op, float, float>::op({DType::kF32}, DType::kF32);
}
template <typename Op>
PointwiseOp unary_f32_i64(const ng_definition& task) {
  if (input_type(task) == DType::kI64) return PointwiseRows<Op, int64_t, int64_t>::op({DType::kI64}, DType::kI64);
  return unary_f32<Op>(task);
}
template <typename Op>
PointwiseOp unary_bool(const ng_definition&) {
  return PointwiseRows<Op, bool, bool>::op({DType::kBool}, DType::kBool);
}
template <typename Op>
PointwiseOp binary_f32(const ng_definition&) {
  return PointwiseRows<Op, float, float, float>::op({DType::kF32, DType::kF32}, DType::kF32);
}
template <typename Op>
PointwiseOp binary_f32_i64(const ng_definition& task) {
  if (input_type(task) != DType::kI64) return binary_f32<Op>(task);
  return PointwiseRows<Op, int64_t, int64_t, int64_t>::op({DType::kI64, DType::kI64}, DType::kI64);
}
// Like `same_types`, but also takes one f32 and one i64 operand.
template <typename Op, PointwiseOp (*same_types)(const ng_definition&)>
PointwiseOp mixed(const ng_definition& task) {
  const Arguments arguments(task);
  const auto is_i64 = [&](size_t i) {
    const auto operand = static_cast<uint32_t>(arguments[i].operand);
    return operand < task.num_operands && dtype_of(task.operands[operand]) == DType::kI64;
  };
  if (task.num_operands == 0 || result_type(task) != DType::kF32) return same_types(task);
  constexpr DType kF32 = DType::kF32;
  constexpr DType kI64 = DType::kI64;
  if (is_i64(0)) return PointwiseRows<InF32<Op>, float, int64_t, float>::op({kI64, kF32}, kF32);
  if (is_i64(1)) return PointwiseRows<InF32<Op>, float, float, int64_t>::op({kF32, kI64}, kF32);
  return same_types(task);
}
template <typename Op>
PointwiseOp comparison(const ng_definition& task) {
  switch (const DType dtype = input_type(task)) {
    case DType::kF32: return PointwiseRows<Op, bool, float, float>::op({dtype, dtype}, DType::kBool);
    case DType::kI64: return PointwiseRows<Op, bool, int64_t, int64_t>::op({dtype, dtype}, DType::kBool);
    default: refuse_type(task, dtype);
  }
}
template <typename Op>
PointwiseOp binary_bool(const ng_definition&) {
  return PointwiseRows<Op, bool, bool, bool>::op({DType::kBool, DType::kBool}, DType::kBool);
}
PointwiseOp where(const ng_definition& task) {
  const DType dtype = task.num_operands == 0 ? DType::kF32 : result_type(task);
  switch (dtype) {
    case DType::kF32: return PointwiseRows<Where, float, bool, float, float>::op({DType::kBool, dtype, dtype}, dtype);
    case DType::kI64:
      return PointwiseRows<Where, int64_t, bool, int64_t, int64_t>::op({DType::kBool, dtype, dtype}, dtype);
    default: refuse_type(task, dtype);
  }
}

template <PointwiseOp (*choose)(const ng_definition&)>
ng_task make_pointwise(const ng_definition& task) {
  return make_task(std::make_unique<Pointwise>(task, choose(task)));
}
template <PointwiseOp (*choose)(const ng_definition&)>
ng_status pointwise_reference(const ng_definition& task, ng_call* call) {
  return Pointwise(task, choose(task)).run_reference(*call);
}

template <PointwiseOp (*choose)(const ng_definition&)>
constexpr Kernel row(const char* name, const char* signature) {
  return {name, signature, made_by<make_pointwise<choose>>, pointwise_reference<choose>};
}

constexpr Kernel kPointwiseRows[] = {
    row<unary_f32_i64<Neg>>("kernel.unary_neg", "(x: f32 or i64) -> y = -x"),
    row<unary_f32_i64<Abs>>("kernel.unary_abs", "(x: f32 or i64) -> y = |x|"),
    row<unary_f32_i64<Relu>>("kernel.unary_relu", "(x: f32 or i64) -> y = x where x is not below 0, else 0"),
    row<unary_f32<Sqrt>>("kernel.unary_sqrt", "(x: f32) -> y = sqrt(x)"),
    row<unary_f32<Rsqrt>>("kernel.unary_rsqrt", "(x: f32) -> y = 1 / sqrt(x), rounded twice"),
    row<unary_f32<Reciprocal>>("kernel.unary_reciprocal", "(x: f32) -> y = 1 / x"),
    row<unary_f32_i64<Square>>("kernel.unary_square", "(x: f32 or i64) -> y = x * x"),
    row<unary_bool<LogicalNot>>("kernel.unary_logical_not", "(x: bool) -> y = not x"),
    row<binary_f32_i64<Add>>("kernel.binary_add", "(a, b: f32 or i64) -> y = a + b"),
    row<binary_f32_i64<Sub>>("kernel.binary_sub", "(a, b: f32 or i64) -> y = a - b"),
    row<mixed<Mul, binary_f32_i64<Mul>>>("kernel.binary_mul", "(a, b: f32 or i64, or one of each) -> y = a * b"),
    row<mixed<Div, binary_f32<Div>>>("kernel.binary_div", "(a, b: f32, or one of them i64) -> y = a / b"),
    row<binary_f32_i64<Maximum>>("kernel.binary_maximum", "(a, b: f32 or i64) -> y = the larger, NaN if any is"),
    row<binary_f32_i64<Minimum>>("kernel.binary_minimum", "(a, b: f32 or i64) -> y = the smaller, NaN if any is"),
    row<comparison<Eq>>("kernel.binary_eq", "(a, b: f32 or i64) -> y: bool = a == b"),
    row<comparison<Ne>>("kernel.binary_ne", "(a, b: f32 or i64) -> y: bool = a != b"),
    row<comparison<Lt>>("kernel.binary_lt", "(a, b: f32 or i64) -> y: bool = a < b"),
    row<comparison<Le>>("kernel.binary_le", "(a, b: f32 or i64) -> y: bool = a <= b"),
    row<comparison<Gt>>("kernel.binary_gt", "(a, b: f32 or i64) -> y: bool = a > b"),
    row<comparison<Ge>>("kernel.binary_ge", "(a, b: f32 or i64) -> y: bool = a >= b"),
    row<binary_bool<LogicalAnd>>("kernel.binary_logical_and", "(a, b: bool) -> y = a and b"),
    row<binary_bool<LogicalOr>>("kernel.binary_logical_or", "(a, b: bool) -> y = a or b"),
    row<binary_bool<LogicalXor>>("kernel.binary_logical_xor", "(a, b: bool) -> y = a != b"),
    row<where>("kernel.where", "(condition: bool, a, b: f32 or i64) -> y = a where condition, else b"),
};

}  // namespace

std::span<const Kernel> pointwise_kernels() { return kPointwiseRows; }

}  // namespace npugraph::kernels
