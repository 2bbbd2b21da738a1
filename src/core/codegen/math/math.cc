// SPDX-License-Identifier: Apache-2.0
#include "codegen/math/math.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "codegen/math/coefficients.h"
#include "codegen/math/functions.h"
#include "loop/op.h"

namespace npugraph::codegen {
namespace {

using loop::Op;

Real reciprocal(Real x) { return 1 / x; }
Real rsqrt(Real x) { return 1 / sqrt(x); }

// Exactly one of `unary` and `binary` is set.
struct Function {
  Op op;
  const char* f64_lanes;  // the function of jit/load.cc that lanes of f64 call; null where f64 has code of its own
  Real (*unary)(Real);
  Real (*binary)(Real, Real) = nullptr;
};

constexpr std::array kFunctions = {
    Function{Op::kReciprocal, nullptr, reciprocal},
    Function{Op::kRsqrt, nullptr, rsqrt},
    Function{Op::kExp, nullptr, emit_exp},
    Function{Op::kExp2, "exp2", emit_exp2},
    Function{Op::kExpm1, nullptr, emit_expm1},
    Function{Op::kLog, nullptr, emit_log},
    Function{Op::kLog2, "log2", emit_log2},
    Function{Op::kLog10, "log10", emit_log10},
    Function{Op::kLog1p, "log1p", emit_log1p},
    Function{Op::kSin, "sin", emit_sin},
    Function{Op::kCos, "cos", emit_cos},
    Function{Op::kTan, "tan", emit_tan},
    Function{Op::kAsin, "asin", emit_asin},
    Function{Op::kAcos, "acos", emit_acos},
    Function{Op::kAtan, "atan", emit_atan},
    Function{Op::kSinh, nullptr, emit_sinh},
    Function{Op::kCosh, nullptr, emit_cosh},
    Function{Op::kTanh, nullptr, emit_tanh},
    Function{Op::kErf, "erf", emit_erf},
    Function{Op::kErfc, "npugraph_erfc", emit_erfc},
    Function{Op::kSigmoid, nullptr, emit_sigmoid},
    Function{Op::kPow, "pow", nullptr, emit_pow},
    Function{Op::kAtan2, "atan2", nullptr, emit_atan2},
    Function{Op::kFmod, "fmod", nullptr, emit_fmod},
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
  if (reals[0].is_f64() && function->f64_lanes != nullptr) return call_lanes(function->f64_lanes, reals).value();
  return (function->unary != nullptr ? function->unary(reals[0]) : function->binary(reals[0], reals[1])).value();
}

llvm::Value* emit_exp2_to_one(llvm::IRBuilderBase& b, const target::Target& target, llvm::Value* x, bool short_one) {
  const llvm::IRBuilderBase::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  const Emitter emitter{b, target};
  return emit_exp2_to_one({emitter, x}, short_one ? std::span<const double>(kExp2TailShort) : kExp2Tail).value();
}

}  // namespace npugraph::codegen
