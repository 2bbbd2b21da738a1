// SPDX-License-Identifier: Apache-2.0
#include "loop/builder.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "loop/text.h"

namespace npugraph::loop {
namespace {

TEST(LoopBuilder, LoopsReductionsAndNumbers) {
  Builder b("row_sums");
  const Expr m = b.scalar("m");
  const Expr n = b.scalar("n");
  const BufferId x = b.in("x", DType::kBF16);
  const BufferId y = b.out("y", DType::kF32);
  b.parallel_for(m, 64, [&](const Expr& i) {
    Value sum;
    b.vector_for(n, [&](const Expr& j) { sum = b.sum(cast(b.load(x, i * n + j), DType::kF32)); });
    b.store(y, i, sum * 2.0);
  });
  EXPECT_EQ(print(b.finish()), R"(npugraph.loop 1 @row_sums {
  scalar m : int
  scalar n : int
  in x : bf16
  out y : f32
  parallel for i0 < m grain 64 {
    vector for i1 < n {
      %0 : bf16 = load x[n*i0 + i1]
      %1 : f32 = cast %0
    } reduce(%2 : f32 = sum %1)
    %3 : f32 = constant 2.0
    %4 : f32 = mul %2, %3
    store y[i0] = %4
  }
}
)");
}

TEST(LoopBuilder, GathersScansChecksAndMasks) {
  Builder b("gather");
  const Expr i0 = b.scalar("i0");
  const Expr eps = b.scalar("eps", ScalarKind::kFloat);
  const BufferId at = b.in("at", DType::kI64);
  const BufferId x = b.inout("x", DType::kF64);
  const BufferId t = b.local("t", DType::kF64, i0 * 2);
  const Expr i = b.begin_for(For::Kind::kVector, i0);
  const Value place = b.load(at, i);
  const Value inside = place < b.index(i0);
  b.check(inside & (place >= 0), "index % is out of range", place);
  const Value element = b.load(x, as_index(place), inside, b.constant(DType::kF64, -1));
  const Value so_far = b.scan(Combine::kMax, element + b.read(eps));
  const Builder::Extreme extreme = b.reduce_with_index(Combine::kMin, element);
  b.store(t, i, select(inside, so_far, -element), inside);
  b.end_for();
  b.store(x, 0, extreme.value);
  b.store(t, as_index(extreme.index), fma(extreme.value, extreme.value, unary(Op::kExp, extreme.value)));
  EXPECT_EQ(print(b.finish()), R"(npugraph.loop 1 @gather {
  scalar i0 : int
  scalar eps : float
  in at : i64
  inout x : f64
  local t : f64[2*i0]
  vector for i1 < i0 scan(%10 : f64 = max %9) {
    %0 : i64 = load at[i1]
    %1 : i64 = index i0
    %2 : bool = lt %0, %1
    %3 : i64 = constant 0
    %4 : bool = ge %0, %3
    %5 : bool = bitand %2, %4
    check %5, "index % is out of range", %0
    %6 : f64 = constant -1.0
    %7 : f64 = load x[v0] where %2 else %6
    %8 : f64 = scalar eps
    %9 : f64 = add %7, %8
    %13 : f64 = neg %7
    %14 : f64 = select %2, %10, %13
    store t[i1] = %14 where %2
  } reduce(%11 : f64 at %12 = min %7)
  store x[0] = %11
  %15 : f64 = exp %11
  %16 : f64 = fma %11, %11, %15
  store t[v12] = %16
}
)");
}

TEST(LoopBuilder, MistakesAreNamedAtOnce) {
  Builder b("k");
  const BufferId x = b.in("x", DType::kF32);
  const BufferId h = b.out("h", DType::kBF16);
  const Value f = b.load(x, 0);
  const Value i = b.index(1);
  const auto refusal = [](auto mistake) -> std::string {
    try {
      mistake();
      return "nothing was refused";
    } catch (const InternalError& error) {
      return error.what();
    }
  };
  EXPECT_NE(refusal([&] { f + i; }).find("add takes one type, got f32 and i64"), std::string::npos);
  EXPECT_NE(refusal([&] { i + 0.5; }).find("0.5 as a i64"), std::string::npos);
  EXPECT_NE(refusal([&] { unary(Op::kExp, i); }).find("exp takes f32 or f64, got i64"), std::string::npos);
  EXPECT_NE(refusal([&] { b.store(h, 0, f); }).find("a store of f32 to a buffer of bf16"), std::string::npos);
  EXPECT_NE(refusal([&] { b.sum(f); }).find("a reduction outside of a loop"), std::string::npos);
  EXPECT_NE(refusal([&] { Value() + f; }).find("a value that nothing defined"), std::string::npos);
  b.store(h, 0, cast(f, DType::kBF16));
  b.begin_for(For::Kind::kSerial, 4);
  EXPECT_NE(refusal([&] { b.finish(); }).find("the loop i0 is still open"), std::string::npos);
}

TEST(LoopBuilder, FinishVerifies) {
  Builder b("k");
  const BufferId x = b.out("x", DType::kF32);
  Value inside;
  b.serial_for(4, [&](const Expr&) { inside = b.constant(DType::kF32, 1); });
  b.store(x, 0, inside);
  EXPECT_THROW(b.finish(), InternalError);
}

}  // namespace
}  // namespace npugraph::loop
