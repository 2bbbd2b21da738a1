// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul/matmul.h"

#include <cmath>
#include <memory>
#include <numeric>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "codegen/matmul/copy.h"
#include "codegen/matmul/matmul_testing.h"
#include "loop/builder.h"
#include "loop/evaluate.h"

namespace npugraph::codegen {
namespace {

struct Case {
  DType a = DType::kF32, b = DType::kF32, c = DType::kF32;
  int64_t m = 1, n = 1, k = 1;
  bool b_is_nk = true;
  bool a_is_km = false, b_is_swapped = false;  // layouts in memory
  int64_t pad = 0;                             // elements between rows
  Sizes batch;
  bool b_has_batch = true;
};

std::string describe(const Case& x, const target::Target& target) {
  return cat(target.level, " ", name_of(x.a), " ", name_of(x.b), " ", name_of(x.c), " m", x.m, " n", x.n, " k", x.k,
             x.b_is_nk ? " nk" : " kn", x.a_is_km ? " a swapped" : "", x.b_is_swapped ? " b swapped" : "", " pad",
             x.pad, " batch", x.batch.size());
}

// A matrix [batch.., rows, columns], column-major in memory if `swapped`.
std::unique_ptr<Tensor> make_matrix(DType dtype, Sizes batch, int64_t rows, int64_t columns, bool swapped,
                                    int64_t pad) {
  Sizes sizes = batch;
  sizes.push_back(rows);
  sizes.push_back(columns);
  Sizes strides(sizes.size());
  const int64_t inner = std::max<int64_t>(swapped ? rows : columns, 1) + pad;
  strides[sizes.size() - 2] = swapped ? 1 : inner;
  strides[sizes.size() - 1] = swapped ? inner : 1;
  int64_t next = inner * std::max<int64_t>(swapped ? columns : rows, 1) + pad;
  for (size_t d = batch.size(); d-- > 0;) {
    strides[d] = next;
    next *= std::max<int64_t>(batch[d], 1);
  }
  return std::make_unique<Tensor>(dtype, sizes, strides);
}

// Calls visit(index) for all elements.
template <typename Visit>
void for_elements(const Sizes& sizes, Visit visit) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  Sizes index(sizes.size());
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) index[d] = rest % sizes[d];
    visit(index);
  }
}

// Computes elements of a product in f64.
class ExactProduct {
 public:
  ExactProduct(const Case& x, const Tensor& a, const Tensor& b) : x_(x), a_(a.numbers()), b_(b.numbers()) {}

  double operator()(const Sizes& index) const {
    int64_t batch = 0;
    for (size_t d = 0; d + 2 < index.size(); ++d) batch = batch * x_.batch[d] + index[d];
    const double* a = a_.data() + (batch * x_.m + index[index.size() - 2]) * x_.k;
    const double* b = b_.data() + (x_.b_has_batch ? batch * x_.n * x_.k : 0) + index.back() * (x_.b_is_nk ? x_.k : 1);
    const int64_t step = x_.b_is_nk ? 1 : x_.n;
    double sum = 0;
    for (int64_t k = 0; k < x_.k; ++k) sum += a[k] * b[k * step];
    return sum;
  }

 private:
  const Case& x_;
  std::vector<double> a_, b_;
};

struct Operands {
  std::unique_ptr<Tensor> a, b, c;
};

Operands make_operands(const Case& x) {
  const Sizes of_b = x.b_has_batch ? x.batch : Sizes{};
  Operands made{make_matrix(x.a, x.batch, x.m, x.k, x.a_is_km, x.pad),
                make_matrix(x.b, of_b, x.b_is_nk ? x.n : x.k, x.b_is_nk ? x.k : x.n, x.b_is_swapped, x.pad),
                make_matrix(x.c, x.batch, x.m, x.n, false, x.pad)};
  made.a->fill(1);
  made.b->fill(2);
  made.c->poison();
  return made;
}

MatmulSpec spec_of(const Case& x) { return {.a = x.a, .b = x.b, .c = x.c, .b_is_nk = x.b_is_nk, .epilogue = {}}; }

double tolerance(DType c, double value, int64_t k) {
  const double sums = 1e-6 * (1 + std::sqrt(static_cast<double>(k)));
  if (c == DType::kF32) return sums;
  return sums + std::abs(value) * (c == DType::kBF16 ? 0x1p-8 : 0x1p-11);
}

void check(const Case& x, const target::Target& target) {
  SCOPED_TRACE(describe(x, target));
  const Operands o = make_operands(x);
  run_matmul_task(spec_of(x), target, {o.a.get(), o.b.get(), o.c.get()}, 1);
  int wrong = 0;
  const ExactProduct exact(x, *o.a, *o.b);
  for_elements(o.c->sizes(), [&](const Sizes& index) {
    const double expected = exact(index);
    const double got = o.c->value(index);
    if (!(std::abs(got - expected) <= tolerance(x.c, expected, x.k)) && wrong++ == 0)
      ADD_FAILURE() << "at row " << index[index.size() - 2] << ", column " << index.back() << ": " << got << ", not "
                    << expected;
  });
  EXPECT_EQ(wrong, 0);
}

constexpr int64_t kRows[] = {0, 1, 2, 5, 8, 9, 16, 17, 33, 131};

TEST(Matmul, IsExactToRoundingForAllTails) {
  for (const target::Target& target : target::host_targets()) {
    for (const int64_t m : kRows) {
      for (const auto& [n, k] :
           {std::pair<int64_t, int64_t>{1, 1}, {0, 5}, {5, 0}, {12, 16}, {50, 37}, {97, 64}, {48, 259}}) {
        for (const bool b_is_nk : {true, false}) check({.m = m, .n = n, .k = k, .b_is_nk = b_is_nk}, target);
      }
    }
  }
}

std::vector<DType> floats_of(const target::Target& target) {
  if (!target.f16c) return {DType::kF32, DType::kBF16};
  return {DType::kF32, DType::kBF16, DType::kF16};
}

TEST(Matmul, MultipliesHalfPrecision) {
  for (const target::Target& target : target::host_targets()) {
    for (const DType dtype : floats_of(target)) {
      if (dtype == DType::kF32) continue;
      for (const int64_t m : kRows) {
        for (const auto& [n, k] : {std::pair<int64_t, int64_t>{50, 37}, {97, 64}, {5, 0}, {31, 1}, {64, 100}}) {
          for (const bool b_is_nk : {true, false}) {
            check({.a = dtype, .b = dtype, .c = dtype, .m = m, .n = n, .k = k, .b_is_nk = b_is_nk}, target);
            check({.a = dtype, .b = dtype, .c = DType::kF32, .m = m, .n = n, .k = k, .b_is_nk = b_is_nk}, target);
            check({.a = DType::kF32, .b = dtype, .c = DType::kF32, .m = m, .n = n, .k = k, .b_is_nk = b_is_nk}, target);
          }
        }
      }
    }
  }
}

TEST(Matmul, ConvertsIntegersOfEightBits) {
  for (const target::Target& target : target::host_targets()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const int64_t m : {1, 5, 9, 131}) {
        for (const auto& [n, k] : {std::pair<int64_t, int64_t>{50, 37}, {97, 64}, {16, 1030}}) {
          for (const bool b_is_nk : {true, false})
            check({.a = dtype, .b = DType::kI8, .c = dtype, .m = m, .n = n, .k = k, .b_is_nk = b_is_nk}, target);
        }
      }
    }
  }
}

// A kernel that computes a matrix of `groups` groups of kGroupOfRow elements: codes times the scale of their group.
constexpr int64_t kGroupOfRow = 35;
loop::Kernel scaled_codes(DType dtype, int64_t groups) {
  loop::Builder b("factor");
  const auto codes = b.in("codes", DType::kI8), scales = b.in("scales", DType::kF32);
  const auto y = b.out("y", dtype);
  b.parallel_for(groups, 1, [&](const Expr& i) {
    const auto scale = b.load(scales, i);
    b.vector_for(kGroupOfRow, [&](const Expr& j) {
      const Expr at = i * kGroupOfRow + j;
      b.store(y, at, b.cast_to(b.cast_to(b.load(codes, at), DType::kF32) * scale, dtype));
    });
  });
  return b.finish();
}

// Sums of products with rows of codes that are scaled by 1/2, 1/4 and 1/8 in turn.
TEST(Matmul, ComputesRowsOfTheSecondFactor) {
  constexpr int64_t n = 53, groups = 6, k = groups * kGroupOfRow;
  for (const target::Target& target : target::host_targets()) {
    for (const DType dtype : floats_of(target)) {
      const Tensor codes(DType::kI8, {n, k}, {k, 1}), scales(DType::kF32, {n, groups}, {groups, 1});
      const Tensor matrix(dtype, {n, k}, {k, 1});
      const_cast<Tensor&>(codes).fill(2);
      for_elements(scales.sizes(), [&](const Sizes& at) {
        *reinterpret_cast<float*>(scales.at(at)) = 1.0F / static_cast<float>(2 << ((at[0] + at[1]) % 3));
      });
      for_elements(matrix.sizes(), [&](const Sizes& at) {
        const Sizes group{at[0], at[1] / kGroupOfRow};
        set_element(matrix.at(at), dtype, static_cast<float>(codes.value(at) * scales.value(group)));
      });
      for (const int64_t m : {0, 1, 2, 9, 40, 131}) {
        const Case x{.a = dtype, .b = dtype, .c = DType::kF32, .m = m, .n = n, .k = k};
        SCOPED_TRACE(describe(x, target));
        const Operands o = make_operands(x);
        MatmulSpec spec = spec_of(x);
        spec.factor = scaled_codes(dtype, n * groups);
        run_matmul_task(spec, target, {o.a.get(), &codes, &scales, o.c.get()}, 2);
        const ExactProduct exact(x, *o.a, matrix);
        for_elements(o.c->sizes(), [&](const Sizes& at) {
          const double expected = exact(at);
          ASSERT_NEAR(o.c->value(at), expected, 1e-5 * (1 + std::abs(expected)) * k / 16);
        });
      }
    }
  }
}

TEST(Matmul, RefusesFactorsThatAreNoRows) {
  const target::Target& target = target::host_target();
  MatmulSpec spec{.epilogue = {}};
  spec.factor = loop::parse(store_text(DType::kF32), "test");
  EXPECT_THROW(make_matmul(spec, target), UserError);
  spec.factor = scaled_codes(DType::kF32, 3);
  spec.b = DType::kBF16;
  EXPECT_THROW(make_matmul(spec, target), UserError);
}

MatmulSpec integer_spec(bool b_is_nk, DType a = DType::kI8) {
  return {.a = a,
          .b = DType::kI8,
          .b_is_nk = b_is_nk,
          .epilogue = loop::parse(store_text(DType::kI32, DType::kI32), "test")};
}

std::vector<char> check_integers(const Case& x, const target::Target& target, int32_t workers) {
  SCOPED_TRACE(describe(x, target));
  const Operands o = make_operands(x);
  o.a->fill_bytes(1);
  o.b->fill_bytes(2);
  run_matmul_task(integer_spec(x.b_is_nk, x.a), target, {o.a.get(), o.b.get(), o.c.get()}, workers,
                  {{.i = x.m}, {.i = x.n}});
  const ExactProduct exact(x, *o.a, *o.b);
  for_elements(o.c->sizes(), [&](const Sizes& index) { ASSERT_EQ(o.c->value(index), exact(index)); });
  return o.c->bytes();
}

void check_integers_on(const target::Target& target, DType a) {
  const Case integers{.a = a, .b = DType::kI8, .c = DType::kI32};
  for (const int64_t m : kRows) {
    for (const auto& [n, k] :
         {std::pair<int64_t, int64_t>{1, 1}, {0, 5}, {5, 0}, {12, 16}, {50, 37}, {97, 128}, {48, 259}}) {
      Case x = integers;
      x.m = m, x.n = n, x.k = k;
      check_integers(x, target, 1);
      x.b_is_nk = false, x.b_is_swapped = true;
      check_integers(x, target, 1);
      x.a_is_km = true;
      check_integers(x, target, 1);
    }
  }
  for (const int64_t m : {3, 40}) {
    Case x = integers;
    x.m = m, x.n = 50, x.k = 4803;
    const std::vector<char> one = check_integers(x, target, 1);
    for (const int32_t workers : {2, 3}) EXPECT_EQ(check_integers(x, target, workers), one);
  }
}

TEST(Matmul, MultipliesIntegersExactly) {
  for (const target::Target& target : target::host_targets()) {
    for (const DType a : {DType::kI8, DType::kU8}) check_integers_on(target, a);
  }
}

// As on the first processors of these levels.
TEST(Matmul, MultipliesIntegersExactlyWithoutAnInstructionForQuads) {
  for (target::Target target : target::host_targets()) {
    if (target.level != "x86-64-v4" && target.level != "neon") continue;
    target.int8_dot = target.int8_mixed = false;
    target.features = target.level == "neon" ? "" : "-prefer-256-bit";
    for (const DType a : {DType::kI8, DType::kU8}) check_integers_on(target, a);
  }
}

TEST(Matmul, RefusesIntegersThatItCannotMultiply) {
  const target::Target& target = target::host_target();
  EXPECT_THROW(make_matmul({.a = DType::kI8, .b = DType::kI8}, target), UserError);
  EXPECT_THROW(make_matmul({.a = DType::kI8, .b = DType::kF32}, target), UserError);
  MatmulSpec spec = integer_spec(true);
  spec.epilogue = loop::parse(store_text(DType::kI32), "test");
  EXPECT_THROW(make_matmul(spec, target), UserError);
}

TEST(Matmul, SumsLongRowsInParts) {
  for (const target::Target& target : target::host_targets()) {
    for (const DType dtype : floats_of(target)) {
      for (const bool b_is_nk : {true, false})
        check({.a = dtype, .b = dtype, .c = DType::kF32, .m = 37, .n = 50, .k = 5003, .b_is_nk = b_is_nk}, target);
    }
  }
}

TEST(Matmul, CopiesRowsThatAreFarApart) {
  for (target::Target target : target::host_targets()) {
    target.l1_bytes = 32 << 10;
    for (const bool b_is_nk : {true, false}) check({.m = 70, .n = 525, .k = 1024, .b_is_nk = b_is_nk}, target);
  }
}

// A has more rows than one cache holds.
TEST(Matmul, GoesThroughManyLongRows) {
  for (const target::Target& target : target::host_targets()) {
    if (!target.amx) continue;
    for (const bool b_is_nk : {true, false})
      check({.a = DType::kBF16, .b = DType::kBF16, .m = 300, .n = 40, .k = 2000, .b_is_nk = b_is_nk}, target);
  }
}

TEST(Matmul, TakesAnyStridesOfAAndB) {
  for (const target::Target& target : target::host_targets()) {
    for (const DType dtype : floats_of(target)) {
      for (int bits = 0; bits < 16; ++bits) {
        for (const int64_t m : {1, 3, 40}) {
          check({.a = dtype,
                 .b = dtype,
                 .c = dtype,
                 .m = m,
                 .n = 53,
                 .k = 66,
                 .b_is_nk = (bits & 1) != 0,
                 .a_is_km = (bits & 2) != 0,
                 .b_is_swapped = (bits & 4) != 0,
                 .pad = (bits & 8) != 0 ? 3 : 0},
                target);
        }
      }
    }
  }
}

// As in the gradient of weights: rows are turned in blocks, and what is left over row by row.
TEST(Matmul, TakesRowsThatLieSideBySide) {
  for (const target::Target& target : target::host_targets()) {
    for (const DType dtype : floats_of(target)) {
      for (const int64_t m : {31, 64, 100}) {
        for (const int64_t k : {64, 300, 301}) {
          check({.a = dtype, .b = dtype, .c = DType::kF32, .m = m, .n = 50, .k = k, .a_is_km = true}, target);
          check({.a = dtype, .b = dtype, .c = dtype, .m = m, .n = 50, .k = k, .b_is_nk = true, .a_is_km = true},
                target);
        }
      }
    }
  }
}

TEST(Matmul, RepeatsOverBatches) {
  for (const target::Target& target : target::host_targets()) {
    for (const bool b_has_batch : {true, false}) {
      for (const int64_t m : {1, 3, 20}) {
        for (const int64_t pad : {0, 2}) {
          check({.m = m, .n = 20, .k = 33, .pad = pad, .batch = {2, 3}, .b_has_batch = b_has_batch}, target);
          check({.m = m, .n = 20, .k = 33, .b_is_nk = false, .pad = pad, .batch = {3}, .b_has_batch = b_has_batch},
                target);
        }
      }
    }
    check({.m = 3, .n = 20, .k = 33, .batch = {0}}, target);
  }
}

TEST(Matmul, GivesTheSameBitsOnAnyNumberOfThreads) {
  const target::Target& target = target::host_target();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t m : {1, 3, 4, 24, 200}) {
      for (const bool b_is_nk : {true, false}) {
        const Case x{.a = dtype, .b = dtype, .m = m, .n = 500, .k = 1211, .b_is_nk = b_is_nk};
        const Operands o = make_operands(x);
        std::vector<char> first;
        for (const int32_t workers : {1, 2, 3}) {
          o.c->poison();
          run_matmul_task(spec_of(x), target, {o.a.get(), o.b.get(), o.c.get()}, workers);
          if (workers == 1) first = o.c->bytes();
          EXPECT_EQ(o.c->bytes(), first) << describe(x, target) << ", " << workers << " workers";
        }
      }
    }
  }
}

// y[r, c] = bf16(relu(sums[r, c] + bias[c]) * scale[r] + factor * residual[r, c]), z[r, c] = sums[r, c].
loop::Kernel make_epilogue() {
  loop::Builder b("epilogue");
  const Expr rows = b.scalar("rows"), n = b.scalar("n"), y_stride = b.scalar("y_stride");
  const Expr factor = b.scalar("factor", ScalarKind::kFloat);
  const auto sums = b.in("sums", DType::kF32), bias = b.in("bias", DType::kF32), scale = b.in("scale", DType::kF32);
  const auto residual = b.in("residual", DType::kBF16);
  const auto y = b.out("y", DType::kBF16), z = b.out("z", DType::kF32);
  b.parallel_for(rows, 1, [&](const Expr& r) {
    const loop::Value of_row = b.load(scale, r);
    b.vector_for(n, [&](const Expr& c) {
      const loop::Value sum = b.load(sums, r * n + c);
      const loop::Value positive = b.apply(loop::Op::kMax, {sum + b.load(bias, c), b.constant(DType::kF32, 0)});
      const loop::Value kept = b.cast_to(b.load(residual, r * n + c), DType::kF32);
      const loop::Value part = b.cast_to(b.read(factor), DType::kF32) * kept;
      b.store(y, r * y_stride + c, b.cast_to(positive * of_row + part, DType::kBF16));
      b.store(z, r * n + c, sum);
    });
  });
  return b.finish();
}

TEST(Matmul, TransposesPiecesWhereTheyLie) {
  for (const int64_t rows : {1, 2, 16, 32}) {
    for (const int64_t columns : {1, 3, 24, 96}) {
      for (const int64_t ints : {1, 32}) {
        std::vector<int32_t> matrix(rows * columns * ints);
        std::iota(matrix.begin(), matrix.end(), 0);
        const std::vector<int32_t> before = matrix;
        transpose_in_place(reinterpret_cast<char*>(matrix.data()), rows, columns, ints * 4);
        for (int64_t i = 0; i < rows * columns * ints; ++i) {
          const int64_t piece = i / ints, from = piece % rows * columns + piece / rows;
          ASSERT_EQ(matrix[i], before[from * ints + i % ints]) << rows << " x " << columns;
        }
      }
    }
  }
}

TEST(Matmul, TakesTheMemoryOfAFactorThatDies) {
  int taken = 0;
  for (const target::Target& target : target::host_targets()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const int64_t m : {16, 32, 48, 51, 64, 131, 256}) {
        for (const Sizes& batch : {Sizes{}, Sizes{3}, Sizes{2, 2}}) {
          const Case x{.a = dtype, .b = dtype, .c = dtype, .m = m, .n = 70, .k = 64, .batch = batch};
          SCOPED_TRACE(describe(x, target));
          const Operands kept = make_operands(x), dying = make_operands(x);
          const std::vector<char> before = dying.a->bytes();
          dying.a->let_die();
          run_matmul_task(spec_of(x), target, {kept.a.get(), kept.b.get(), kept.c.get()}, 3);
          run_matmul_task(spec_of(x), target, {dying.a.get(), dying.b.get(), dying.c.get()}, 3);
          EXPECT_EQ(kept.c->bytes(), dying.c->bytes());
          EXPECT_EQ(kept.a->bytes(), before);
          taken += dying.a->bytes() != before;
        }
      }
    }
  }
  EXPECT_GT(taken, 0);
}

TEST(Matmul, RunsTheEpilogueAsItsKernelSays) {
  for (const target::Target& target : target::host_targets()) {
    for (const int64_t m : {1, 7, 45, 50}) {
      for (const bool b_is_nk : {true, false}) {
        for (const bool b_has_batch : {true, false}) {
          const Case x{.m = m, .n = 61, .k = 30, .b_is_nk = b_is_nk, .batch = {2}, .b_has_batch = b_has_batch};
          SCOPED_TRACE(describe(x, target));
          const Operands o = make_operands(x);
          const int64_t rows = 2 * m, stride = x.n + 3;
          Tensor bias(DType::kF32, {x.n}, {1}), scale(DType::kF32, {rows}, {1});
          Tensor residual(DType::kBF16, {rows, x.n}, {x.n, 1}), y(DType::kBF16, {rows, x.n}, {stride, 1});
          Tensor z(DType::kF32, {rows, x.n}, {x.n, 1}), expected(DType::kBF16, {rows, x.n}, {stride, 1});
          bias.fill(3);
          scale.fill(4);
          residual.fill(5);
          MatmulSpec spec = spec_of(x);
          spec.epilogue = make_epilogue();
          run_matmul_task(spec, target, {o.a.get(), o.b.get(), &bias, &scale, &residual, &y, &z}, 2,
                          {{.i = rows}, {.i = x.n}, {.i = stride}, {.f = 0.5}});
          const ExactProduct exact(x, *o.a, *o.b);
          for_elements(z.sizes(),
                       [&](const Sizes& i) { ASSERT_NEAR(z.value(i), exact({i[0] / m, i[0] % m, i[1]}), 1e-5); });
          const loop::HostBuffer buffers[] = {z.host(),        bias.host(),     scale.host(),
                                              residual.host(), expected.host(), o.c->host()};
          const Scalar scalars[] = {Scalar::of_int(rows), Scalar::of_int(x.n), Scalar::of_int(stride),
                                    Scalar::of_float(0.5)};
          ASSERT_EQ(loop::interpret(*spec.epilogue, buffers, scalars), "");
          for_elements(z.sizes(), [&](const Sizes& i) {
            ASSERT_NEAR(y.value(i), expected.value(i), std::abs(expected.value(i)) * 0x1p-7);
          });
        }
      }
    }
  }
}

// Compares the results C of several products of one A, computed by one task, with those of a task for each product.
TEST(Matmul, ProductsOfOneFactorAreWhatTheyAreByThemselves) {
  for (const target::Target& target : target::host_targets()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const int64_t m : {1, 5, 20, 50, 144}) {
        for (const bool mixed : {false, true}) {
          const int64_t columns[] = {40, 0, 200, 7};
          const int64_t k = m == 50 ? 67 : 64;
          const auto a = make_matrix(dtype, {}, m, k, false, 0);
          a->fill(1);
          std::vector<std::unique_ptr<Tensor>> kept;
          std::vector<MatmulSpec> specs;
          std::vector<const Tensor*> tensors{a.get()};
          std::vector<std::vector<char>> alone;
          for (const int64_t n : columns) {
            const Case x{.a = dtype, .b = dtype, .c = dtype, .m = m, .n = n, .k = k, .b_is_nk = !mixed || n == 40};
            kept.push_back(make_matrix(dtype, {}, x.b_is_nk ? n : k, x.b_is_nk ? k : n, false, 0));
            kept.push_back(make_matrix(dtype, {}, m, n, false, 0));
            const Tensor& b = *kept[kept.size() - 2];
            const Tensor& c = *kept.back();
            kept[kept.size() - 2]->fill(static_cast<uint32_t>(n));
            specs.push_back(spec_of(x));
            run_matmul_task(specs.back(), target, {a.get(), &b, &c}, 2);
            alone.push_back(c.bytes());
            tensors.insert(tensors.end(), {&b, &c});
          }
          for (const int32_t workers : {1, 3}) {
            for (size_t i = 1; i < kept.size(); i += 2) kept[i]->poison();
            if (workers == 3) a->let_die();
            run_task(make_matmuls(specs, target), tensors, workers);
            for (size_t i = 0; i < alone.size(); ++i)
              EXPECT_EQ(kept[2 * i + 1]->bytes(), alone[i]) << target.level << " m" << m << " n" << columns[i];
          }
        }
      }
    }
  }
}

TEST(Matmul, ProductsOfOneFactorHaveEpiloguesOfTheirOwn) {
  const target::Target& target = target::host_target();
  for (const int64_t m : {1, 37}) {
    const auto scaled = [](loop::Op op) {
      loop::Builder b("scaled");
      const Expr n = b.scalar("n"), factor = b.scalar("factor", ScalarKind::kFloat);
      const auto sums = b.in("sums", DType::kF32), y = b.out("y", DType::kF32);
      b.parallel_for(b.scalar("rows"), 1, [&](const Expr& r) {
        b.vector_for(n, [&](const Expr& c) {
          b.store(y, r * n + c, b.apply(op, {b.load(sums, r * n + c), b.cast_to(b.read(factor), DType::kF32)}));
        });
      });
      return b.finish();
    };
    const Case x{.m = m, .n = 24, .k = 30}, wide{.m = m, .n = 56, .k = 30};
    const Operands o = make_operands(x), p = make_operands(wide);
    MatmulSpec first = spec_of(x), second = spec_of(wide);
    first.epilogue = scaled(loop::Op::kMul);
    second.epilogue = scaled(loop::Op::kAdd);
    run_task(make_matmuls({first, second}, target), {o.a.get(), o.b.get(), o.c.get(), p.b.get(), p.c.get()}, 2,
             {{.i = 24}, {.f = 0.5}, {.i = m}, {.i = 56}, {.f = 3}, {.i = m}});
    const ExactProduct narrow_sums(x, *o.a, *o.b), wide_sums(wide, *o.a, *p.b);
    for_elements(o.c->sizes(), [&](const Sizes& i) { ASSERT_NEAR(o.c->value(i), narrow_sums(i) * 0.5, 1e-5); });
    for_elements(p.c->sizes(), [&](const Sizes& i) { ASSERT_NEAR(p.c->value(i), wide_sums(i) + 3, 1e-5); });
  }
}

// Computes c = a * b, then y = c + a * d in the memory of c. If b and d have different layouts, the products run one
// after the other.
TEST(Matmul, InStepOneReadsWhatTheOtherHasStored) {
  const auto text = [](bool adds) {
    loop::Builder b("end");
    const Expr rows = b.scalar("rows"), n = b.scalar("n");
    const auto sums = b.in("sums", DType::kF32);
    const auto gate = adds ? std::optional(b.in("gate", DType::kF32)) : std::nullopt;
    const auto y = b.out("y", DType::kF32);
    b.serial_for(rows, [&](const Expr& r) {
      b.vector_for(n, [&](const Expr& c) {
        const Expr at = r * n + c;
        const auto sum = b.load(sums, at);
        b.store(y, at, gate ? b.apply(loop::Op::kAdd, {b.load(*gate, at), sum}) : sum);
      });
    });
    return b.finish();
  };
  for (const target::Target& target : target::host_targets()) {
    for (const bool alike : {true, false}) {
      for (const int64_t m : {1, 3, 20, 37, 150}) {
        for (const int64_t n : {7, 200}) {
          const Case x{.m = m, .n = n, .k = 67}, other{.m = m, .n = n, .k = 67, .b_is_nk = alike};
          const Operands o = make_operands(x), p = make_operands(other);
          MatmulSpec first = spec_of(x), second = spec_of(other);
          first.epilogue = text(false);
          second.epilogue = text(true);
          const std::vector<ng_scalar> sizes = {{.i = m}, {.i = n}, {.i = m}, {.i = n}};
          const std::vector<const Tensor*> tensors = {o.a.get(), o.b.get(), o.c.get(), p.b.get(), o.c.get(), o.c.get()};
          run_task(make_matmuls({first, second}, target, RowCount::kFixed, Order::kInStep), tensors, 3, sizes);
          const ExactProduct one(x, *o.a, *o.b), two(other, *o.a, *p.b);
          for_elements(o.c->sizes(), [&](const Sizes& i) {
            ASSERT_NEAR(o.c->value(i), one(i) + two(i), 1e-5) << target.level << " m" << m << " n" << n;
          });
        }
      }
    }
  }
}

TEST(Matmul, RefusesOtherEpilogues) {
  loop::Builder b("sum_of_rows");
  const Expr n = b.scalar("n");
  const auto sums = b.in("sums", DType::kF32), y = b.out("y", DType::kF32);
  b.parallel_for(n, 1, [&](const Expr& r) {
    loop::Value sum;
    b.vector_for(n, [&](const Expr& c) { sum = b.sum(b.load(sums, r * n + c)); });
    b.store(y, r, sum);
  });
  MatmulSpec spec;
  spec.epilogue = b.finish();
  EXPECT_THROW(make_matmul(spec, target::host_target()), UserError);
}

TEST(Matmul, WritesNothingBetweenRows) {
  const Case x{.m = 20, .n = 50, .k = 8, .pad = 7};
  const Operands o = make_operands(x);
  run_matmul_task(spec_of(x), target::host_target(), {o.a.get(), o.b.get(), o.c.get()}, 1);
  float poison;
  std::memset(&poison, 0x7e, sizeof(poison));
  for (int64_t r = 0; r + 1 < x.m; ++r) {
    for (int64_t i = 0; i < x.pad; ++i) {
      const double between = element_value(o.c->at({r, x.n - 1}) + 4 * (i + 1), DType::kF32);
      EXPECT_EQ(between, poison);
    }
  }
}

TEST(Matmul, RefusesWhatItCannotDo) {
  EXPECT_THROW(make_matmul({.a = DType::kI32}, target::host_target()), UserError);
  const Case x{.m = 2, .n = 3, .k = 4};
  const Operands o = make_operands(x);
  const ng_task task = make_matmul({.b_is_nk = false}, target::host_target());
  ng_buffer buffers[] = {o.a->buffer(), o.b->buffer(), o.c->buffer()};
  const ng_call call{.buffers = buffers, .num_buffers = 3};
  void* state = nullptr;
  EXPECT_EQ(task.bind(task.context, &call, &state), NG_ERROR);
  EXPECT_EQ(state, nullptr);
  task.destroy(task.context);
}

}  // namespace
}  // namespace npugraph::codegen
