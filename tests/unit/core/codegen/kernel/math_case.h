// SPDX-License-Identifier: Apache-2.0
// Mathematical functions as compiled loops over arrays, their exact values, and the distance between the two.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "codegen/emit/loops.h"
#include "codegen/jit/jit.h"
#include "codegen/jit/module.h"
#include "codegen/math/math.h"
#include "loop/op.h"

namespace npugraph::codegen {

// The type of exact values for functions of Float: double for float, long double for double.
template <typename Float>
using Wider = std::conditional_t<std::is_same_v<Float, float>, double, long double>;

template <typename Float>
Wider<Float> exact_value(loop::Op op, Float x_narrow, Float y_narrow) {
  using Wide = Wider<Float>;
  using loop::Op;
  const Wide x = x_narrow;
  const Wide y = y_narrow;
  switch (op) {
    case Op::kReciprocal: return 1 / x;
    case Op::kRsqrt: return 1 / std::sqrt(x);
    case Op::kExp: return std::exp(x);
    case Op::kExp2: return std::exp2(x);
    case Op::kExpm1: return std::expm1(x);
    case Op::kLog: return std::log(x);
    case Op::kLog2: return std::log2(x);
    case Op::kLog10: return std::log10(x);
    case Op::kLog1p: return std::log1p(x);
    case Op::kSin: return std::sin(x);
    case Op::kCos: return std::cos(x);
    case Op::kTan: return std::tan(x);
    case Op::kAsin: return std::asin(x);
    case Op::kAcos: return std::acos(x);
    case Op::kAtan: return std::atan(x);
    case Op::kSinh: return std::sinh(x);
    case Op::kCosh: return std::cosh(x);
    case Op::kTanh: return std::tanh(x);
    case Op::kErf: return std::erf(x);
    case Op::kErfc: return std::erfc(x);
    case Op::kSigmoid: return 1 / (1 + std::exp(-x));
    case Op::kPow: return std::pow(x, y);
    case Op::kAtan2: return std::atan2(x, y);
    case Op::kFmod: return std::fmod(x, y);
    default: return std::numeric_limits<Wide>::quiet_NaN();
  }
}

// ot - exact| in units of the last place of Float at `exact`; infinity if the class or the sign of a zero is wrong.
template <typename Float>
double ulp_error(Float got, Wider<Float> exact) {
  using Wide = Wider<Float>;
  using Limits = std::numeric_limits<Float>;
  if (std::isnan(exact)) return std::isnan(got) ? 0 : Limits::infinity();
  if (std::isinf(exact)) return got == exact ? 0 : Limits::infinity();
  if (got == 0 && std::signbit(got) != std::signbit(exact)) return Limits::infinity();
  if (exact == 0) return got == 0 ? 0 : Limits::infinity();
  // Infinity counts as the number that follows the largest one.
  const Wide end = std::ldexp(Wide(1), Limits::max_exponent);
  const Wide reached = std::clamp<Wide>(exact, -end, end);
  const Wide value = std::isinf(got) ? std::copysign(end, Wide(got)) : Wide(got);
  const int exponent = std::max(std::ilogb(reached), Limits::min_exponent - 1);
  const Wide error = std::fabs(value - reached) * std::ldexp(Wide(1), Limits::digits - 1 - exponent);
  return std::isnan(error) ? Limits::infinity() : static_cast<double>(error);
}

// out[i] = op(x[i], y[i]) for 0 <= i < count, a multiple of the lanes.
template <typename Float>
class MathLoop {
 public:
  using Emit = std::function<llvm::Value*(llvm::IRBuilderBase&, llvm::ArrayRef<llvm::Value*>)>;

  MathLoop(const target::Target& target, loop::Op op, int lanes)
      : MathLoop(target, lanes, [&](llvm::IRBuilderBase& b, llvm::ArrayRef<llvm::Value*> args) {
          return emit_math(b, target, op, args.take_front(loop::info_of(op).arity));
        }) {}

  MathLoop(const target::Target& target, int lanes, const Emit& emit) : lanes_(lanes) {
    IrModule ir = make_ir_module("math", target);
    llvm::IRBuilder<> b(*ir.context);
    llvm::Type* element = std::is_same_v<Float, float> ? b.getFloatTy() : b.getDoubleTy();
    auto* type =
        llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy(), b.getPtrTy(), b.getInt64Ty()}, false);
    llvm::Function* function = add_function(*ir.module, target, "run", type);
    b.SetInsertPoint(llvm::BasicBlock::Create(*ir.context, "entry", function));
    llvm::Type* vector = lanes == 1 ? element : llvm::FixedVectorType::get(element, lanes);
    const llvm::Align align(sizeof(Float));
    emit_loop(b, b.getInt64(0), function->getArg(3), lanes, [&](llvm::Value* i) {
      llvm::Value* x = b.CreateAlignedLoad(vector, b.CreateGEP(element, function->getArg(0), i), align);
      llvm::Value* y = b.CreateAlignedLoad(vector, b.CreateGEP(element, function->getArg(1), i), align);
      b.CreateAlignedStore(emit(b, {x, y}), b.CreateGEP(element, function->getArg(2), i), align);
    });
    b.CreateRetVoid();
    code_ = compile(std::move(ir), target);
    run_ = code_->template function<Run>("run");
  }

  void operator()(const Float* x, const Float* y, Float* out, int64_t count) const { run_(x, y, out, count); }

  // Returns the results for arrays of any length; `y` may be empty.
  std::vector<Float> operator()(std::vector<Float> x, std::vector<Float> y = {}) const {
    const size_t count = x.size();
    x.resize((count + lanes_ - 1) / lanes_ * lanes_);
    y.resize(x.size());
    std::vector<Float> out(x.size());
    run_(x.data(), y.data(), out.data(), static_cast<int64_t>(x.size()));
    out.resize(count);
    return out;
  }

 private:
  using Run = void(const Float* x, const Float* y, Float* out, int64_t count);

  int lanes_;
  std::shared_ptr<const MachineCode> code_;
  Run* run_ = nullptr;
};

// All operators that emit_math() takes.
inline std::vector<loop::Op> math_ops() {
  std::vector<loop::Op> all;
  for (int i = 0; i < loop::kNumOps; ++i) {
    if (is_math(static_cast<loop::Op>(i))) all.push_back(static_cast<loop::Op>(i));
  }
  return all;
}

}  // namespace npugraph::codegen
