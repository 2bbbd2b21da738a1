// SPDX-License-Identifier: Apache-2.0
// Loop IR: one generated kernel as a tree of loops over typed values in SSA form. Text form and rules: README.md.
//
// Meaning (the interpreter implements it; generated code must match it up to the freedom named here):
// - Statements run in order; loops run from 0 to extent-1. A value is visible after its definition in its block and in
//   the blocks inside. An index counts elements from the start of its buffer.
// - A `parallel` loop's iterations may run at the same time; they write disjoint elements. Only the outermost loop of a
//   kernel is parallel, and it has no reductions.
// - A `vector` loop's iterations may run in lanes of one vector; no iteration reads what another one writes, except
//   through reductions. It contains no parallel and no vector loop. Loops inside it have extents that do not depend on
//   its variable.
// - A reduction combines one value per iteration. Lanes and partial sums may reorder it; the order depends on extents
//   alone.
// - A scan gives each iteration the combination of all values up to and including its own. Serial or vector loops only.
// - Arithmetic has the dtype of the result: f32 and f64 follow IEEE 754 (fused multiply-add allowed), integers wrap,
//   comparisons give kBool. Elements of bf16 and f16 are values of that dtype: cast them to f32 to compute.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/expr.h"

namespace npugraph::loop {

inline constexpr int kLoopVersion = 1;
inline constexpr int32_t kNone = -1;

using ValueId = int32_t;  // a scalar value per iteration; index into Kernel::dtypes

// clang-format off
enum class Op : uint8_t {
  // Leaves: Let::number; the integer Let::index as i64; a scalar argument, named by the symbol Let::index, as f64.
  kConstant, kIndex, kScalar,
  // Float to the same float.
  kSqrt, kRsqrt, kExp, kExp2, kExpm1, kLog, kLog2, kLog10, kLog1p, kSin, kCos, kTan, kAsin, kAcos, kAtan, kSinh, kCosh,
  kTanh, kErf, kErfc, kSigmoid, kReciprocal, kFloor, kCeil, kTrunc, kRound /* half to even */,
  // Any number to the same dtype. kMin and kMax give NaN if either is NaN; kSign gives NaN for NaN, 0 for zeros.
  kNeg, kAbs, kSign, kAdd, kSub, kMul, kMin, kMax,
  kDiv,        // floats
  kFma,        // floats: a * b + c, rounded once or twice
  kPow, kAtan2,  // floats
  kFmod,       // floats and integers: sign of the dividend; kFloorMod: sign of the divisor
  kFloorMod, kTruncDiv, kFloorDiv,  // integers raise "ZeroDivisionError" on a zero divisor; floats follow IEEE
  kBitAnd, kBitOr, kBitXor, kBitNot, kShiftLeft, kShiftRight,  // integers and kBool
  kEq, kNe, kLt, kLe, kGt, kGe, kIsNan,  // to kBool
  kSelect,     // kBool, a, b
  kCast,       // any to any, as ATen: to nearest even; float to integer truncates; to kBool is "!= 0"
  kBitcast,    // same size
};
// clang-format on

enum class Combine : uint8_t { kSum, kProduct, kMin, kMax, kAnd, kOr };  // identity of each; kMin/kMax propagate NaN

struct Buffer {
  enum class Kind : uint8_t { kIn, kOut, kInOut, kShared, kLocal };
  std::string name;
  DType dtype = DType::kF32;
  Kind kind = Kind::kIn;
  // Number of elements of a shared or local buffer, which depends only on scalars. A local buffer belongs to one
  // iteration of the outermost loop. Elements of a shared buffer are visible to all statements after the outermost one
  // that stored them.
  Expr elements;
};

// Whether the memory belongs to the kernel and is no argument.
inline bool is_scratch(Buffer::Kind kind) { return kind == Buffer::Kind::kShared || kind == Buffer::Kind::kLocal; }

// A computed value.
struct Let {
  ValueId id = kNone;
  Op op = Op::kConstant;
  std::vector<ValueId> args;
  Scalar number;  // kConstant
  Expr index;     // kIndex, kScalar
};

// Index expressions are over loop variables, integer scalars of the kernel, and integer values named "v<id>" (gathers).
// With a mask (a kBool value), elements whose mask is false are not touched: a load gives `otherwise`.
struct Load {
  ValueId id = kNone;
  int32_t buffer = kNone;
  Expr index;
  ValueId mask = kNone;
  ValueId otherwise = kNone;
  bool ahead = false;  // a hint: prefetch the memory that follows
};

struct Store {
  int32_t buffer = kNone;
  Expr index;
  ValueId value = kNone;
  ValueId mask = kNone;
  bool streaming = false;  // a hint: bypass the caches
};

// Fails the kernel with `message` if the condition does not hold. A "%" in it stands for the value `shown`, "{n + 1}"
// for the value of this expression of scalars.
struct Check {
  ValueId condition = kNone;
  ValueId shown = kNone;
  std::string message;
};

// `value` is defined in the loop's body; `result` is visible after the loop. argmin/argmax: `index_result` is the
// iteration of the first extreme value (or of the first NaN), i64; kMin and kMax only.
struct Reduction {
  Combine combine = Combine::kSum;
  ValueId value = kNone;
  ValueId result = kNone;
  ValueId index_result = kNone;
};

// `result` is visible in the body after `value` is defined.
struct Scan {
  Combine combine = Combine::kSum;
  ValueId value = kNone;
  ValueId result = kNone;
};

struct Stmt;

struct For {
  enum class Kind : uint8_t { kSerial, kParallel, kVector, kUnrolled };
  std::string var;  // unique in the kernel
  Expr extent;      // over scalars, outer loop variables; at least 0
  Kind kind = Kind::kSerial;
  Expr grain = 1;  // parallel: smallest number of iterations that is worth a thread
  std::vector<Stmt> body;
  std::vector<Reduction> reductions;
  std::vector<Scan> scans;
};

struct Stmt {
  std::variant<Let, Load, Store, Check, For> node;
};

struct ScalarArg {
  std::string name;
  ScalarKind kind = ScalarKind::kInt;
};

struct Kernel {
  std::string name;
  std::vector<Buffer> buffers;     // arguments first, in the order of ng_call::buffers, then shared ones, then locals
  std::vector<ScalarArg> scalars;  // in the order of ng_call::scalars
  std::vector<DType> dtypes;       // per value
  std::vector<Stmt> body;
};

}  // namespace npugraph::loop
