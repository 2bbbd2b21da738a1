// SPDX-License-Identifier: Apache-2.0
// Products with weights of 4 bits, packed as in torch.
#include "loop/int4.h"

#include <cmath>
#include <cstring>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "codegen/matmul/matmul_testing.h"
#include "codegen/quant/quant.h"

namespace npugraph::codegen {
namespace {

struct Int4Case {
  int64_t m = 1, n = 64, k = 256;
  int group = 32;
  DType dtype = DType::kF32;
  loop::Int4Packing packing;
  bool x_is_km = false;  // layout in memory
};

std::string text_of(const Int4Case& c) {
  return cat("npugraph.quant 1 packed ", loop::print(c.packing), " ", c.group, "\n", store_text(c.dtype));
}

struct Operands {
  Tensor x, codes, scales, y;
};

Operands make_operands(const Int4Case& c) {
  const int64_t groups = c.k / c.group;
  return {{c.dtype, {c.m, c.k}, c.x_is_km ? Sizes{1, c.m} : Sizes{c.k, 1}},
          {DType::kU8, {c.n, c.k / 2}, {c.k / 2, 1}},
          {c.dtype, {groups, c.n, 2}, {c.n * 2, 2, 1}},
          {c.dtype, {c.m, c.n}, {c.n, 1}}};
}

int code_at(const Int4Case& c, const Tensor& codes, int64_t column, int64_t step) {
  const loop::Int4Place place = loop::place_of_code(c.packing, c.n, c.k, column, step);
  return static_cast<uint8_t>(codes.at({0, 0})[place.byte]) >> place.shift & 15;
}

std::vector<char> checked_rows(const Int4Case& c, const target::Target& target, int32_t workers = 1) {
  SCOPED_TRACE(cat(target.level, " ", name_of(c.dtype), " m", c.m, " n", c.n, " k", c.k, " group ", c.group, " ",
                   loop::print(c.packing)));
  Operands o = make_operands(c);
  o.x.fill(1);
  o.scales.fill(2);
  o.codes.fill_bytes(7);
  o.y.poison();
  EXPECT_EQ(
      try_task(make_quant(text_of(c), target), {&o.x, &o.codes, &o.scales, &o.y}, workers, {{.i = c.m}, {.i = c.n}}),
      NG_OK);
  int wrong = 0;
  for (int64_t column = 0; column < c.n; ++column) {
    std::vector<double> w;
    for (int64_t e = 0; e < c.k; ++e) {
      const double scale = o.scales.value({e / c.group, column, 0}), zero = o.scales.value({e / c.group, column, 1});
      w.push_back(scale * (code_at(c, o.codes, column, e) - 8) + zero);
    }
    for (int64_t row = 0; row < c.m; ++row) {
      double expected = 0, size = 0;
      for (int64_t e = 0; e < c.k; ++e) {
        const double product = w[static_cast<size_t>(e)] * o.x.value({row, e});
        expected += product;
        size += std::abs(product);
      }
      const double rounding = c.dtype == DType::kF32 ? 0 : c.dtype == DType::kF16 ? 0x1p-11 : 0x1p-8;
      const double got = o.y.value({row, column});
      if (!(std::abs(got - expected) <= size * 2e-6 + std::abs(expected) * rounding) && wrong++ == 0)
        ADD_FAILURE() << "row " << row << ", column " << column << ": " << got << ", not " << expected;
    }
  }
  EXPECT_EQ(wrong, 0);
  return o.y.bytes();
}

TEST(Int4, EveryCodeHasAPlaceOfItsOwn) {
  for (const loop::Int4Packing& packing : loop::kInt4Packings) {
    for (const int64_t n : {16, 48, 64, 112, 128}) {
      std::set<std::pair<int64_t, int>> places;
      for (int64_t column = 0; column < n; ++column) {
        for (int64_t step = 0; step < 6; ++step) {
          const loop::Int4Place place = loop::place_of_code(packing, n, 6, column, step);
          EXPECT_LT(place.byte, n * 3);
          EXPECT_TRUE(places.emplace(place.byte, place.shift).second);
        }
      }
    }
    EXPECT_EQ(loop::int4_packing(std::to_string(packing.columns), packing.halves ? "halves" : "pairs"), packing);
  }
}

TEST(Int4, MultipliesAllShapes) {
  for (const loop::Int4Packing& packing : loop::kInt4Packings) {
    for (const int64_t m : {0, 1, 2, 5, 17, 25})
      checked_rows({.m = m, .n = 112, .packing = packing}, target::host_target());
  }
  for (const target::Target& target : target::host_targets()) {
    for (const int64_t n : {16, 48, 64, 80}) {
      checked_rows({.m = 1, .n = n}, target);
      checked_rows({.m = 33, .n = n}, target);
    }
    checked_rows({.m = 263, .n = 80, .k = 64}, target);
    checked_rows({.m = 22, .n = 64, .k = 1280, .group = 256}, target);
  }
}

TEST(Int4, TakesAllGroupsAndTypes) {
  for (const target::Target& target : target::host_targets()) {
    for (const int group : {32, 64, 128, 256}) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
        if (dtype == DType::kF16 && !target.f16c) continue;
        checked_rows({.m = 1, .n = 80, .group = group, .dtype = dtype}, target);
        checked_rows({.m = 3, .n = 16, .group = group, .dtype = dtype, .x_is_km = true}, target);
        checked_rows({.m = 22, .n = 80, .k = 768, .group = group, .dtype = dtype, .x_is_km = group == 64}, target);
      }
    }
  }
}

TEST(Int4, GivesTheSameBitsForAnyNumberOfThreads) {
  for (const int64_t m : {1, 13, 300}) {
    const Int4Case c{.m = m, .n = 240, .k = 128};
    const std::vector<char> one = checked_rows(c, target::host_target(), 1);
    for (const int32_t workers : {2, 3}) EXPECT_EQ(checked_rows(c, target::host_target(), workers), one);
  }
}

TEST(Int4, RefusesOtherTextsAndShapes) {
  const target::Target& target = target::host_target();
  const std::string store = store_text(DType::kF32);
  for (const std::string line :
       {"packed 48 halves 32", "packed 64 thirds 32", "packed 64 halves 16", "packed 64 halves"})
    EXPECT_THROW(make_quant(cat("npugraph.quant 1 ", line, "\n", store), target), UserError) << line;
  EXPECT_THROW(make_quant("npugraph.quant 1 packed 64 halves 32", target), UserError);

  const Int4Case good{.m = 2};
  const auto run = [&](const Tensor& x, const Tensor& codes, const Tensor& scales, const Tensor& y) {
    return try_task(make_quant(text_of(good), target), {&x, &codes, &scales, &y}, 1, {{.i = 2}, {.i = 64}});
  };
  const Operands o = make_operands(good);
  EXPECT_EQ(run(o.x, o.codes, o.scales, o.y), NG_OK);
  const Tensor few_scales(DType::kF32, {7, 64, 2}, {128, 2, 1});
  EXPECT_EQ(run(o.x, o.codes, few_scales, o.y), NG_ERROR);
  const Tensor spread_codes(DType::kU8, {64, 128}, {1, 64});
  EXPECT_EQ(run(o.x, spread_codes, o.scales, o.y), NG_ERROR);
  const Tensor other_type(DType::kBF16, {8, 64, 2}, {128, 2, 1});
  EXPECT_EQ(run(o.x, o.codes, other_type, o.y), NG_ERROR);
}

}  // namespace
}  // namespace npugraph::codegen
