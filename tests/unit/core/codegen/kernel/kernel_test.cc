// SPDX-License-Identifier: Apache-2.0
// Loops, places, reductions, scans, locals and checks of generated kernels.
#include "codegen/kernel/kernel.h"

#include <numeric>

#include "base/counters.h"
#include "codegen/assembly_testing.h"
#include "codegen/jit/builds.h"
#include "codegen/kernel/kernel_testing.h"
#include "loop/builder.h"
#include "loop/random_kernel.h"

namespace npugraph::codegen {

namespace {

using loop::BufferId;
using loop::Builder;
using loop::Combine;
using loop::Kernel;
using loop::Op;
using loop::Value;

Scalar of(int64_t n) { return Scalar::of_int(n); }

TEST(VectorLoops, TakeAnyExtent) {
  for (const DType type : {DType::kU8, DType::kBF16, DType::kF32, DType::kF64}) {
    Builder b("copy");
    const Expr n = b.scalar("n");
    const BufferId x = b.in("x", type), y = b.inout("y", type);
    b.vector_for(n, [&](const Expr& i) { b.store(y, i, b.load(x, i)); });
    const Kernel kernel = b.finish();
    for (int64_t n : {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 255, 256, 257, 1000})
      expect_as_interpreted(kernel, {random_array(type, n, 1), random_array(type, n + 100, 2)}, {of(n)});
  }
}

TEST(VectorLoops, TakeConstantExtents) {
  for (int64_t n : {1, 5, 16, 24, 64, 96, 130}) {
    Builder b("scaled");
    const BufferId x = b.in("x", DType::kF32), y = b.inout("y", DType::kF32);
    b.vector_for(n, [&](const Expr& i) { b.store(y, i, b.load(x, i) * 2.0 + 1.0); });
    expect_as_interpreted(b.finish(), {random_array(DType::kF32, n, 1), random_array(DType::kF32, n + 70, 2)}, {});
  }
}

TEST(VectorLoops, ReachEveryKindOfPlace) {
  for (const DType type : {DType::kI8, DType::kBool, DType::kF16, DType::kF32, DType::kI64}) {
    Builder b("places");
    const Expr n = b.scalar("n");
    const Expr stride = b.scalar("stride");
    const BufferId x = b.in("x", type), at = b.in("at", DType::kI32), y = b.out("y", type);
    b.vector_for(n, [&](const Expr& i) {
      b.store(y, i, b.load(x, n - 1 - i));                        // downwards
      b.store(y, n + i, b.load(x, 3 * i + 2));                    // constant stride
      b.store(y, 2 * n + i, b.load(x, stride * i));               // symbolic stride
      b.store(y, 3 * n + i, b.load(x, 5));                        // one element for all
      b.store(y, 4 * n + i, b.load(x, as_index(b.load(at, i))));  // gather
      b.store(y, 5 * n + i, b.load(x, Expr::make(ExprOp::kFloorDiv, {i, Expr(3)})));
      b.store(y, 6 * n + i, b.load(x, Expr::make(ExprOp::kMod, {i, stride})));
      b.store(y, 9 * n - 2 * i, b.load(x, i));  // scatter at a stride
      b.store(y, 10 * n - i, b.load(x, i));     // downwards
      b.store(y, 10 * n + 1 + as_index(b.load(at, i)), b.load(x, i));
    });
    const Kernel kernel = b.finish();
    for (const int64_t n : {1, 6, 41, 150}) {
      std::vector<int32_t> permutation(static_cast<size_t>(n));
      std::iota(permutation.begin(), permutation.end(), 0);
      std::shuffle(permutation.begin(), permutation.end(), std::mt19937(1));
      expect_as_interpreted(
          kernel, {random_array(type, 4 * n + 10, 1), array_of(DType::kI32, permutation), zeros(type, 12 * n + 2)},
          {of(n), of(2)});
    }
  }
}

TEST(VectorLoops, TouchOnlyWhatTheMaskAllows) {
  for (const DType type : {DType::kU8, DType::kBF16, DType::kF32, DType::kI64}) {
    Builder b("masked");
    const Expr n = b.scalar("n");
    const BufferId x = b.in("x", type), m = b.in("m", DType::kBool), y = b.inout("y", type);
    b.vector_for(n, [&](const Expr& i) {
      const Value mask = b.load(m, i);
      const Value within = b.index(i) < 50.0;
      const Value other = b.load(x, 0);
      b.store(y, i, b.load(x, i, within, other), mask);
      b.store(y, n + i, b.load(x, 49 - i, within, other));
      b.store(y, 2 * n + 2 * i, b.load(x, 7, mask, other), mask);
    });
    const Kernel kernel = b.finish();
    // x has 50 elements: the memory behind them must not be read.
    for (const int64_t n : {1, 50, 99, 128})
      expect_as_interpreted(kernel, {random_array(type, 50, 1), random_array(DType::kBool, n, 2), zeros(type, 4 * n)},
                            {of(n)});
  }
}

TEST(Streaming, AlignsItselfToWholeVectors) {
  Builder b("streaming");
  const Expr m = b.scalar("m"), n = b.scalar("n");
  const BufferId x = b.in("x", DType::kF32), y = b.inout("y", DType::kF32);
  b.parallel_for(m, 1, [&](const Expr& i) {
    b.vector_for(n, [&](const Expr& j) { b.store(y, i * n + j, b.load(x, i * n + j) + 1.0, {}, true); });
  });
  const Kernel kernel = b.finish();
  for (const int64_t n : {1, 13, 64, 131, 1000})
    expect_as_interpreted(kernel, {random_array(DType::kF32, 5 * n, 1), random_array(DType::kF32, 5 * n + 9, 2)},
                          {of(5), of(n)});
}

struct ReductionCase {
  Combine combine;
  DType type;
};

TEST(Reductions, CombineAllIterations) {
  const std::vector<ReductionCase> cases = {
      {Combine::kSum, DType::kF32}, {Combine::kProduct, DType::kF32}, {Combine::kMin, DType::kF32},
      {Combine::kMax, DType::kF64}, {Combine::kSum, DType::kI32},     {Combine::kProduct, DType::kU8},
      {Combine::kMin, DType::kI8},  {Combine::kMax, DType::kU16},     {Combine::kAnd, DType::kBool},
      {Combine::kOr, DType::kBool}, {Combine::kOr, DType::kI64},      {Combine::kMax, DType::kF32},
      {Combine::kMax, DType::kU32}, {Combine::kSum, DType::kF64},     {Combine::kAnd, DType::kU8},
  };
  for (const auto& [combine, type] : cases) {
    for (const loop::For::Kind kind : {loop::For::Kind::kVector, loop::For::Kind::kSerial}) {
      Builder b("reduce");
      const Expr n = b.scalar("n");
      const BufferId x = b.in("x", type), y = b.out("y", type);
      const Expr i = b.begin_for(kind, n);
      const Value result = b.reduce(combine, b.load(x, i));
      b.end_for();
      b.store(y, 0, result);
      const Kernel kernel = b.finish();
      for (const int64_t n : {0, 1, 5, 16, 63, 64, 100, 517}) {
        Array input = random_array(type, n, 3);
        if (combine == Combine::kProduct && type == DType::kF32)
          for (int64_t k = 0; k < n; ++k) input.data<float>()[k] = 1 + input.data<float>()[k] / 1000;
        expect_as_interpreted(kernel, {input, zeros(type, 1)}, {of(n)}, {.f32 = 1e-4, .f64 = 1e-11});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Reductions, FindTheFirstExtremeAndNan) {
  for (const DType type : {DType::kF32, DType::kI8, DType::kI64, DType::kF64}) {
    for (const Combine combine : {Combine::kMin, Combine::kMax}) {
      Builder b("arg");
      const Expr n = b.scalar("n");
      const BufferId x = b.in("x", type), y = b.out("y", type), at = b.out("at", DType::kI64);
      Builder::Extreme extreme;
      b.vector_for(n, [&](const Expr& i) { extreme = b.reduce_with_index(combine, b.load(x, i)); });
      b.store(y, 0, extreme.value);
      b.store(at, 0, extreme.index);
      const Kernel kernel = b.finish();
      for (const int64_t n : {0, 1, 16, 100, 400}) {
        Array input = random_array(type, n, 5);
        expect_as_interpreted(kernel, {input, zeros(type, 1), zeros(DType::kI64, 1)}, {of(n)});
        if (type != DType::kF32 || n < 100) continue;
        input.data<float>()[77] = input.data<float>()[61] = std::nanf("");
        expect_as_interpreted(kernel, {input, zeros(type, 1), zeros(DType::kI64, 1)}, {of(n)});
        for (int64_t k = 0; k < n; ++k) input.data<float>()[k] = k == 40 || k == 90 ? 1.f : 1.f;
        expect_as_interpreted(kernel, {input, zeros(type, 1), zeros(DType::kI64, 1)}, {of(n)});
      }
    }
  }
}

TEST(Reductions, OfLanesStayInTheirLanes) {
  Builder b("columns");
  const Expr m = b.scalar("m"), n = b.scalar("n");
  const BufferId x = b.in("x", DType::kF32), sums = b.out("sums", DType::kF32), at = b.out("at", DType::kI64);
  b.vector_for(n, [&](const Expr& j) {
    Value sum;
    Builder::Extreme largest;
    b.serial_for(m, [&](const Expr& i) {
      const Value value = b.load(x, i * n + j);
      sum = b.sum(value);
      largest = b.reduce_with_index(Combine::kMax, value);
    });
    b.store(sums, j, sum);
    b.store(at, j, largest.index);
  });
  const Kernel kernel = b.finish();
  for (const int64_t n : {1, 30, 64})
    expect_as_interpreted(kernel, {random_array(DType::kF32, 9 * n, 1), zeros(DType::kF32, n), zeros(DType::kI64, n)},
                          {of(9), of(n)}, {.f32 = 1e-5});
}

TEST(Scans, CombineWhatCameBefore) {
  for (const DType type : {DType::kF32, DType::kI64, DType::kU8}) {
    for (const Combine combine : {Combine::kSum, Combine::kMax}) {
      for (const loop::For::Kind kind : {loop::For::Kind::kVector, loop::For::Kind::kSerial}) {
        Builder b("scan");
        const Expr n = b.scalar("n");
        const BufferId x = b.in("x", type), y = b.out("y", type);
        const Expr i = b.begin_for(kind, n);
        b.store(y, i, b.scan(combine, b.load(x, i)));
        b.end_for();
        const Kernel kernel = b.finish();
        for (const int64_t n : {0, 1, 16, 50, 200})
          expect_as_interpreted(kernel, {random_array(type, n, 1), zeros(type, n)}, {of(n)}, {.f32 = 1e-4});
      }
    }
  }
}

Kernel softmax(DType type) {
  Builder b("softmax");
  const Expr m = b.scalar("m"), n = b.scalar("n");
  const BufferId x = b.in("x", type), y = b.out("y", type), t = b.local("t", DType::kF32, n);
  b.parallel_for(m, 1, [&](const Expr& i) {
    Value largest, sum;
    b.vector_for(n, [&](const Expr& j) { largest = b.reduce(Combine::kMax, cast(b.load(x, i * n + j), DType::kF32)); });
    b.vector_for(n, [&](const Expr& j) {
      const Value e = unary(Op::kExp, cast(b.load(x, i * n + j), DType::kF32) - largest);
      b.store(t, j, e);
      sum = b.sum(e);
    });
    const Value scale = unary(Op::kReciprocal, sum);
    b.vector_for(n, [&](const Expr& j) { b.store(y, i * n + j, cast(b.load(t, j) * scale, type)); });
  });
  return b.finish();
}

TEST(Kernels, KeepLocalsOfIterationsApart) {
  const Kernel kernel = softmax(DType::kF32);
  for (const int64_t n : {1, 10, 64, 333})
    expect_as_interpreted(kernel, {random_array(DType::kF32, 21 * n, 1), zeros(DType::kF32, 21 * n)}, {of(21), of(n)});
}

TEST(Kernels, KeepWhatIsSharedForWhatComesLater) {
  Builder b("total");
  const Expr n = b.scalar("n");
  const BufferId x = b.in("x", DType::kF32), y = b.out("y", DType::kF32);
  const BufferId parts = b.shared("parts", DType::kF32, n), more = b.shared("more", DType::kF64, n * 2);
  const BufferId own = b.local("own", DType::kF32, n);
  b.parallel_for(n, 1, [&](const Expr& i) {
    b.vector_for(n, [&](const Expr& j) { b.store(own, j, b.load(x, i * n + j)); });
    Value sum;
    b.vector_for(n, [&](const Expr& j) { sum = b.reduce(Combine::kMax, b.load(own, j)); });
    b.store(parts, i, sum);
    b.store(more, 2 * i, cast(sum, DType::kF64));
  });
  Value total;
  b.vector_for(n, [&](const Expr& p) {
    const Value both = b.load(parts, p) + cast(b.load(more, 2 * p), DType::kF32);
    total = b.reduce(Combine::kMax, both);
  });
  b.parallel_for(n, 1, [&](const Expr& i) { b.store(y, i, b.load(parts, i) - total); });
  const Kernel kernel = b.finish();
  for (int64_t n : {1, 2, 17, 40})
    expect_as_interpreted(kernel, {random_array(DType::kF32, n * n, 1), random_array(DType::kF32, n, 2)}, {of(n)});
}

// A vector loop over any number of columns around a serial loop that combines.
TEST(Reductions, OfColumnsStayInTheirColumns) {
  for (const DType type : {DType::kBF16, DType::kF32, DType::kF64}) {
    Builder b("columns");
    const Expr n = b.scalar("n");
    const BufferId x = b.in("x", type), y = b.out("y", DType::kF32);
    b.vector_for(n, [&](const Expr& j) {
      const Expr i = b.begin_for(loop::For::Kind::kSerial, 5);
      const Value largest = b.reduce(Combine::kMax, cast(b.load(x, i * n + j), DType::kF32));
      b.end_for();
      b.store(y, j, largest);
    });
    const Kernel kernel = b.finish();
    for (int64_t n : {0, 1, 15, 16, 31, 63, 64, 65, 127, 200})
      expect_as_interpreted(kernel, {random_array(type, 5 * n, 1), random_array(DType::kF32, n, 2)}, {of(n)});
  }
}

TEST(Kernels, HandValuesFromTheTopToParallelLoops) {
  Builder b("centre");
  const Expr n = b.scalar("n");
  const BufferId x = b.in("x", DType::kF32), y = b.out("y", DType::kF32);
  const Expr scale = b.scalar("scale", ScalarKind::kFloat);
  const Value factor = cast(b.read(scale), DType::kF32);
  const Value start = b.load(x, 1);
  Value sum;
  b.vector_for(n, [&](const Expr& i) { sum = b.sum(b.load(x, i)); });
  const Value positive = start > 0.0;
  b.parallel_for(n, 16, [&](const Expr& i) { b.store(y, i, (b.load(x, i) - sum) * select(positive, factor, start)); });
  expect_as_interpreted(b.finish(), {random_array(DType::kF32, 100, 1), zeros(DType::kF32, 100)},
                        {of(100), Scalar::of_float(0.25)}, {.f32 = 1e-5});
}

TEST(Kernels, NestLoopsOfEveryKind) {
  Builder b("nested");
  const Expr m = b.scalar("m"), n = b.scalar("n");
  const BufferId x = b.in("x", DType::kF32), y = b.out("y", DType::kF32), z = b.out("z", DType::kF32);
  b.parallel_for(m, 2, [&](const Expr& i) {
    Value total;
    b.serial_for(3, [&](const Expr& k) {
      Value part;
      b.vector_for(n, [&](const Expr& j) {
        Value power;
        b.unrolled_for(3, [&](const Expr& u) {
          power = b.reduce(Combine::kProduct, b.load(x, i * n + j) + cast(b.index(u + k), DType::kF32));
        });
        b.store(y, (i * 3 + k) * n + j, power);
        part = b.sum(power);
      });
      total = b.sum(part);
    });
    b.store(z, i, total);
  });
  const Kernel kernel = b.finish();
  for (const int64_t n : {1, 20, 77})
    expect_as_interpreted(kernel,
                          {random_array(DType::kF32, 7 * n, 1), zeros(DType::kF32, 21 * n), zeros(DType::kF32, 7)},
                          {of(7), of(n)}, {.f32 = 1e-3});
}

TEST(Checks, FailWithTheirMessage) {
  Builder b("embedding");
  const Expr m = b.scalar("m"), n = b.scalar("n"), rows = b.scalar("rows");
  const BufferId table = b.in("table", DType::kF32), ids = b.in("ids", DType::kI64), y = b.out("y", DType::kF32);
  b.parallel_for(m, 1, [&](const Expr& i) {
    const Value id = b.load(ids, i);
    b.check((id >= 0.0) & (id < b.index(rows)), "index % is not one of {rows} + {m*n}", id);
    b.vector_for(n, [&](const Expr& j) { b.store(y, i * n + j, b.load(table, as_index(id) * n + j)); });
  });
  const Kernel kernel = b.finish();
  const auto run = [&](const std::vector<int64_t>& ids) {
    expect_as_interpreted(
        kernel, {random_array(DType::kF32, 10 * 20, 1), array_of(DType::kI64, ids), zeros(DType::kF32, 6 * 20)},
        {of(6), of(20), of(10)});
  };
  run({0, 9, 5, 5, 1, 2});
  run({0, 9, 10, 5, 1, 2});
  run({0, 9, 5, -3, 1, 99});
}

TEST(Checks, InLanesShowTheFirstThatFails) {
  Builder b("checked");
  const Expr n = b.scalar("n");
  const BufferId x = b.in("x", DType::kI32), y = b.out("y", DType::kI32);
  b.vector_for(n, [&](const Expr& i) {
    const Value id = b.load(x, i);
    b.check(id >= 0.0, "bad %", id);
    b.store(y, i, id);
  });
  const Kernel kernel = b.finish();
  std::vector<int32_t> ids(100);
  std::iota(ids.begin(), ids.end(), 1);
  expect_as_interpreted(kernel, {array_of(DType::kI32, ids), zeros(DType::kI32, 100)}, {of(100)});
  ids[70] = -7;
  ids[71] = -8;
  ids[99] = -9;
  expect_as_interpreted(kernel, {array_of(DType::kI32, ids), zeros(DType::kI32, 100)}, {of(100)});
  expect_as_interpreted(kernel, {array_of(DType::kI32, ids), zeros(DType::kI32, 100)}, {of(70)});
}

TEST(Cache, BuildsEqualKernelsOnce) {
  const auto of_process = [] { return process_counters().at("kernel_builds").value(); };
  const target::Target& target = target::host_target();
  const int64_t before = of_process();
  const BuildCount of_both;
  const ng_task first = make_kernel_task(softmax(DType::kBF16), target);
  const BuildCount of_second;
  const ng_task second = make_kernel_task(softmax(DType::kBF16), target);
  EXPECT_EQ(of_process(), before + 1);
  EXPECT_EQ(of_second.builds(), 0);
  first.destroy(first.context);
  second.destroy(second.context);
}

}  // namespace

// The instructions that loops are made of, on each level of the processor.

namespace {

using target::Arch;
using target::Target;

// y = x * x + x for vectors of a type, computed in f32.
loop::Kernel square_and_add(DType type) {
  loop::Builder b("square_and_add");
  const Expr n = b.scalar("n");
  const loop::BufferId x = b.in("x", type), y = b.out("y", type);
  b.vector_for(n, [&](const Expr& i) {
    const loop::Value value = cast(b.load(x, i), DType::kF32);
    b.store(y, i, cast(value * value + value, type));
  });
  return b.finish();
}

TEST(Instructions, LoopsOfF32) {
  for (const Target& target : target::host_targets()) {
    const std::string text = kernel_assembly(square_and_add(DType::kF32), target);
    expect_instruction(text, "v?mulps|fmul", vectors_of(target), target);
    expect_instruction(text, "v?addps|fadd", vectors_of(target), target);
  }
}

TEST(Instructions, LoopsOfF16) {
  for (const Target& target : target::host_targets()) {
    if (!target.f16c) continue;
    const std::string text = kernel_assembly(square_and_add(DType::kF16), target);
    const bool arm = target.arch == Arch::kAArch64;
    expect_instruction(text, arm ? "fcvtl2?|fcvt" : "vcvtph2ps", vectors_of(target), target);
    expect_instruction(text, arm ? "fcvtn2?|fcvt" : "vcvtps2ph", arm ? "[vz][0-9]" : vectors_of(target), target);
  }
}

}  // namespace

// Random kernels, for every target of the host: generated code gives the results of the interpreter.

namespace {

using loop::testing::RandomCase;
using loop::testing::RandomOptions;

std::string run_generated(RandomCase& c, const target::Target& target, int workers) {
  std::vector<Array> arrays;
  for (const auto& buffer : c.buffers) arrays.push_back({buffer.dtype, buffer.bytes});
  const std::string error = run_generated(c.kernel, target, arrays, c.scalars, workers);
  for (size_t i = 0; i < arrays.size(); ++i) c.buffers[i].bytes = std::move(arrays[i].bytes);
  return error;
}

void test_cases(uint32_t first, uint32_t count, const RandomOptions& options) {
  for (uint32_t seed = first; seed < first + count; ++seed) {
    const RandomCase start = loop::testing::random_case(seed, options);
    RandomCase expected = start;
    const std::string error = loop::testing::interpret(expected);
    for (const target::Target& target : target::host_targets()) {
      RandomCase got = start;
      const std::string got_error = run_generated(got, target, seed % 2 == 0 ? 1 : 3);
      const std::string what = cat("seed ", seed, ", ", target.level, "\n", loop::print(start.kernel));
      // Lanes and threads may fail at the same time, and then any of the failures is reported.
      ASSERT_EQ(got_error.empty(), error.empty()) << got_error << error << what;
      if (!error.empty()) continue;
      ASSERT_EQ(loop::testing::difference(expected, got), "") << what;
    }
  }
}

TEST(RandomKernels, DoWhatTheInterpreterDoes) { test_cases(1, 60, {}); }
TEST(RandomKernels, TreatNanAndInfinitiesAlike) { test_cases(1001, 40, {.special_values = true}); }
TEST(RandomKernels, FailAlike) { test_cases(2001, 40, {.failures = true}); }

}  // namespace

}  // namespace npugraph::codegen
