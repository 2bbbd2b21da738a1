// SPDX-License-Identifier: Apache-2.0
// What generated mathematical functions cost on data in the first-level cache: nanoseconds per element on one core, the
// best of several runs. Prints one line of JSON; NPUGRAPH_TARGET chooses a lower baseline.
#include <algorithm>
#include <cstdio>

#include "base/trace.h"
#include "codegen/kernel/math_case.h"

namespace npugraph::codegen {
namespace {

constexpr int64_t kCount = 2048;

// Nanoseconds per element.
template <typename Float>
double measure(const MathLoop<Float>& loop) {
  std::vector<Float> x(kCount), y(kCount), out(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    x[i] = static_cast<Float>(0.01 + 3.0 * i / kCount);
    y[i] = static_cast<Float>(0.7 + 2.0 * (i % 64) / 64);
  }
  constexpr int kRuns = 20;
  constexpr int kCalls = 200;
  double best = 1e30;
  for (int run = 0; run < kRuns; ++run) {
    const int64_t start = now_ns();
    for (int call = 0; call < kCalls; ++call) loop(x.data(), y.data(), out.data(), kCount);
    best = std::min(best, static_cast<double>(now_ns() - start) / (kCalls * kCount));
  }
  return best;
}

// x / 2 (1 + erf(x / sqrt(2)))
llvm::Value* gelu(llvm::IRBuilderBase& b, const target::Target& target, llvm::Value* x) {
  const auto constant = [&](double value) { return llvm::ConstantFP::get(x->getType(), value); };
  llvm::Value* erf = emit_math(b, target, loop::Op::kErf, {b.CreateFMul(x, constant(0.70710678118654752))});
  return b.CreateFMul(b.CreateFMul(x, constant(0.5)), b.CreateFAdd(erf, constant(1)));
}

llvm::Value* silu(llvm::IRBuilderBase& b, const target::Target& target, llvm::Value* x) {
  return b.CreateFMul(x, emit_math(b, target, loop::Op::kSigmoid, {x}));
}

template <typename Float>
void report(const target::Target& target, const char* suffix) {
  const int lanes = target.vector_bytes() / static_cast<int>(sizeof(Float));
  for (const loop::Op op : math_ops()) {
    const double ns = measure(MathLoop<Float>(target, op, lanes));
    std::printf(", \"%s_%s\": %.3f", std::string(loop::info_of(op).name).c_str(), suffix, ns);
  }
}

void report_all() {
  const target::Target& target = target::host_target();
  const int lanes = target.lanes(DType::kF32);
  const auto composed = [&](auto emit) {
    return measure(MathLoop<float>(target, lanes, [&](llvm::IRBuilderBase& b, llvm::ArrayRef<llvm::Value*> args) {
      return emit(b, target, args[0]);
    }));
  };
  std::printf("{\"target\": \"%s\", \"gelu_f32\": %.3f, \"silu_f32\": %.3f", target.level.c_str(),
              composed(gelu), composed(silu));
  report<float>(target, "f32");
  report<double>(target, "f64");
  std::printf("}\n");
}

}  // namespace
}  // namespace npugraph::codegen

int main() { npugraph::codegen::report_all(); }
