// SPDX-License-Identifier: Apache-2.0
// Names, arities and type rules of the operators, and the words of the text form.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "loop/kernel.h"
#include "tensor/lexer.h"

namespace npugraph::loop {

inline constexpr int kNumOps = static_cast<int>(Op::kBitcast) + 1;

enum class TypeRule : uint8_t {
  kLeaf,     // no arguments
  kFloat,    // f32 or f64, to the same
  kNumber,   // f32, f64 or an integer (kBool is none), to the same
  kInteger,  // an integer, to the same
  kBits,     // an integer or kBool, to the same
  kCompare,  // two numbers or kBools, to kBool
  kIsNan,    // f32 or f64, to kBool
  kSelect,   // kBool and two of any one type, to that type
  kCast,     // any to any
  kBitcast,  // any to any of the same size, except kBool
};

struct OpInfo {
  Op op;
  std::string_view name;  // in the text form
  int arity;
  TypeRule rule;
};

const OpInfo& info_of(Op op);
std::optional<Op> parse_op(std::string_view name);

inline constexpr std::array<std::string_view, 6> kCombineNames = {"sum", "product", "min", "max", "and", "or"};
inline constexpr std::array<std::string_view, 5> kBufferKindNames = {"in", "out", "inout", "shared", "local"};
inline constexpr std::array<std::string_view, 4> kForKindNames = {"serial", "parallel", "vector", "unrolled"};
inline constexpr std::array<std::string_view, 3> kScalarKindNames = {"int", "float", "bool"};

// Types of values: all except the complex ones. Types with arithmetic: f32, f64 and the integers.
bool is_value_type(DType dtype);
bool is_compute_float(DType dtype);
bool is_integer(DType dtype);  // kBool is none
bool is_signed_integer(DType dtype);

// The reason why `op` cannot give this result for these arguments; empty if it can.
std::string type_error(Op op, std::span<const DType> args, DType result);
// The result type that follows from the arguments; nullopt for leaves and casts.
std::optional<DType> result_type(Op op, std::span<const DType> args);
// The reason why a reduction or a scan cannot combine values of this type; empty if it can.
std::string type_error(Combine combine, DType dtype);

// "v<id>", the name of an integer value in an index expression.
std::string index_name(ValueId id);
// The value that `name` stands for in an index expression, or kNone. Loops and scalars have no such names.
ValueId index_value(std::string_view name);

}  // namespace npugraph::loop
