// SPDX-License-Identifier: Apache-2.0
#include "codegen/math.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "codegen/math_functions.h"
#include "loop/op.h"

namespace npugraph::codegen {
namespace {

using loop::Op;

Real reciprocal(Real x) { return 1 / x; }
Real rsqrt(Real x) { return 1 / sqrt(x); }

// Exactly one of `unary` and `binary` is set.
struct Function {
  Op op;
  const char* name;  // of its f64 form in library.h; null where there is none, and f64 has the same code as f32
  bool own_f64;
  Real (*unary)(Real);
  Real (*binary)(Real, Real) = nullptr;
};

constexpr std::array kFunctions = {
    Function{Op::kReciprocal, nullptr, true, reciprocal},
    Function{Op::kRsqrt, nullptr, true, rsqrt},
    Function{Op::kExp, "exp", true, emit_exp},
    Function{Op::kExp2, "exp2", false, emit_exp2},
    Function{Op::kExpm1, "expm1", true, emit_expm1},
    Function{Op::kLog, "log", true, emit_log},
    Function{Op::kLog2, "log2", false, emit_log2},
    Function{Op::kLog10, "log10", false, emit_log10},
    Function{Op::kLog1p, "log1p", false, emit_log1p},
    Function{Op::kSin, "sin", false, emit_sin},
    Function{Op::kCos, "cos", false, emit_cos},
    Function{Op::kTan, "tan", false, emit_tan},
    Function{Op::kAsin, "asin", false, emit_asin},
    Function{Op::kAcos, "acos", false, emit_acos},
    Function{Op::kAtan, "atan", false, emit_atan},
    Function{Op::kSinh, "sinh", true, emit_sinh},
    Function{Op::kCosh, "cosh", true, emit_cosh},
    Function{Op::kTanh, "tanh", true, emit_tanh},
    Function{Op::kErf, "erf", false, emit_erf},
    Function{Op::kErfc, "npugraph_erfc", false, emit_erfc},
    Function{Op::kSigmoid, nullptr, true, emit_sigmoid},
    Function{Op::kPow, "pow", false, nullptr, emit_pow},
    Function{Op::kAtan2, "atan2", false, nullptr, emit_atan2},
    Function{Op::kFmod, "fmod", false, nullptr, emit_fmod},
};

const Function* find(Op op) {
  const auto found = std::find_if(kFunctions.begin(), kFunctions.end(), [&](const Function& f) { return f.op == op; });
  return found == kFunctions.end() ? nullptr : &*found;
}

}  // namespace

bool is_math(Op op) { return find(op) != nullptr; }

llvm::Value* emit_math(llvm::IRBuilderBase& b, const target::Target& target, Op op, llvm::ArrayRef<llvm::Value*> args) {
  const Function* function = find(op);
  NG_CHECK(function != nullptr, "no mathematical function ", loop::info_of(op).name);
  const llvm::IRBuilderBase::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  const Emitter emitter{b, target};
  std::vector<Real> reals;
  for (llvm::Value* arg : args) reals.emplace_back(emitter, arg);
  if (reals[0].is_f64() && !function->own_f64) return call_lanes(function->name, reals).value();
  return (function->unary != nullptr ? function->unary(reals[0]) : function->binary(reals[0], reals[1])).value();
}

}  // namespace npugraph::codegen
