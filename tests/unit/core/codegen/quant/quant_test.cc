// SPDX-License-Identifier: Apache-2.0
#include "codegen/quant/quant.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "base/error.h"
#include "codegen/matmul/matmul_testing.h"
#include "loop/gguf.h"

namespace npugraph::codegen {
namespace {

const std::vector<std::string> kTypes = {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k"};

const loop::BlockFormat& format(const std::string& type) { return loop::format_of(*loop::block_type(type)); }

double half_at(const uint8_t* at) { return element_value(at, DType::kF16); }

int signed_byte(uint8_t byte) { return static_cast<int8_t>(byte); }

// Elements as the formats define them.
double element_of_k(const uint8_t* block, int e, const uint8_t* codes, const uint8_t* upper) {
  const uint8_t* packed = block + 4;
  const int g = e / 32;
  int scale = packed[g] & 63, offset = packed[g + 4] & 63;
  if (g >= 4) {
    scale = (packed[g + 4] & 15) | (packed[g - 4] >> 6) << 4;
    offset = packed[g + 4] >> 4 | (packed[g] >> 6) << 4;
  }
  const int byte = codes[e / 64 * 32 + e % 32];
  const int fifth = upper == nullptr ? 0 : upper[e % 32] >> g & 1;
  return half_at(block) * scale * ((g % 2 == 0 ? byte & 15 : byte >> 4) + 16 * fifth) - half_at(block + 2) * offset;
}

double element_of_k6(const uint8_t* block, int e) {
  const int half = e / 128, quarter = e % 128 / 32, i = e % 32;
  const int low = block[half * 64 + quarter % 2 * 32 + i] >> (quarter / 2 * 4) & 15;
  const int high = block[128 + half * 32 + i] >> (quarter * 2) & 3;
  return half_at(block + 208) * signed_byte(block[192 + e / 16]) * ((low | high << 4) - 32);
}

double element_of(const std::string& type, const uint8_t* block, int e) {
  const auto nibble = [&](const uint8_t* codes) { return e < 16 ? codes[e] & 15 : codes[e - 16] >> 4; };
  if (type == "q4_0") return half_at(block) * (nibble(block + 2) - 8);
  if (type == "q4_1") return half_at(block) * nibble(block + 4) + half_at(block + 2);
  const auto fifth = [&](const uint8_t* bits) { return 16 * (bits[e / 8] >> e % 8 & 1); };
  if (type == "q5_0") return half_at(block) * (nibble(block + 6) + fifth(block + 2) - 16);
  if (type == "q5_1") return half_at(block) * (nibble(block + 8) + fifth(block + 4)) + half_at(block + 2);
  if (type == "q8_0") return half_at(block) * signed_byte(block[2 + e]);
  if (type == "q4_k") return element_of_k(block, e, block + 16, nullptr);
  return type == "q5_k" ? element_of_k(block, e, block + 48, block + 16) : element_of_k6(block, e);
}

// Fills blocks with random codes, and with scales of the size that they have in models.
void fill_blocks(const std::string& type, Tensor& blocks) {
  std::minstd_rand random(7);
  const int64_t bytes = format(type).bytes;
  const auto set_half = [&](char* at) {
    set_element(at, DType::kF16, static_cast<float>(static_cast<int>(random() % 255) - 127) / 4096);
  };
  for (int64_t row = 0; row < blocks.sizes()[0]; ++row) {
    for (int64_t at = 0; at < blocks.sizes()[1]; at += bytes) {
      char* block = blocks.at({row, at});
      for (int64_t i = 0; i < bytes; ++i) block[i] = static_cast<char>(random() >> 8);
      set_half(type == "q6_k" ? block + 208 : block);
      if (format(type).has_offsets) set_half(block + 2);
    }
  }
}

double weight(const std::string& type, const Tensor& blocks, int64_t row, int64_t k) {
  const loop::BlockFormat& f = format(type);
  const char* block = blocks.at({row, k / f.elements * f.bytes});
  return element_of(type, reinterpret_cast<const uint8_t*>(block), static_cast<int>(k % f.elements));
}

// Makes rows of blocks with `pad` bytes between them. The last row ends where readable memory ends.
std::unique_ptr<Tensor> make_blocks(const std::string& type, int64_t rows, int64_t k, int64_t pad = 0) {
  const int64_t bytes = k / format(type).elements * format(type).bytes;
  auto blocks = std::make_unique<Tensor>(DType::kU8, Sizes{rows, bytes}, Sizes{bytes + pad, 1});
  fill_blocks(type, *blocks);
  return blocks;
}

ng_status run_quant(const std::string& text, const target::Target& target, const std::vector<const Tensor*>& tensors,
                    int32_t workers, const std::vector<ng_scalar>& scalars = {}) {
  return try_task(make_quant(text, target), tensors, workers, scalars);
}

Tensor index_of(const std::vector<int64_t>& rows) { return {DType::kI64, {static_cast<int64_t>(rows.size())}, {1}}; }

void set_rows(Tensor& index, const std::vector<int64_t>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) std::memcpy(index.at({static_cast<int64_t>(i)}), &rows[i], 8);
}

TEST(Quant, GathersRowsOfBlocks) {
  const std::vector<int64_t> rows = {4, 0, 4, 2};
  for (const target::Target& target : target::host_targets()) {
    for (const std::string& type : kTypes) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        SCOPED_TRACE(cat(target.level, " ", type, " ", name_of(dtype)));
        const int64_t k = 512;
        const auto blocks = make_blocks(type, 5, k, 6);
        Tensor index = index_of(rows), y(dtype, {4, k}, {k, 1});
        set_rows(index, rows);
        ASSERT_EQ(run_quant(cat("npugraph.quant 1 rows ", type), target, {blocks.get(), &index, &y}, 2), NG_OK);
        for (int64_t i = 0; i < 4; ++i) {
          for (int64_t e = 0; e < k; ++e) {
            const double expected = weight(type, *blocks, rows[static_cast<size_t>(i)], e);
            const double rounding = dtype == DType::kF32 ? 0x1p-24 : 0x1p-8;
            // Without fused multiply-add, each term is rounded before the sum.
            ASSERT_NEAR(y.value({i, e}), expected, std::abs(expected) * rounding + (target.fma ? 0 : 1e-6))
                << "row " << i << ", element " << e;
          }
        }
      }
    }
  }
}

TEST(Quant, RefusesRowsThatAreNotThere) {
  const target::Target& target = target::host_target();
  const auto blocks = make_blocks("q8_0", 5, 64);
  for (const int64_t wrong : {-1, 5}) {
    Tensor index = index_of({0, wrong}), y(DType::kF32, {2, 64}, {64, 1});
    set_rows(index, {0, wrong});
    y.poison();
    const std::vector<char> before = y.bytes();
    EXPECT_EQ(run_quant("npugraph.quant 1 rows q8_0", target, {blocks.get(), &index, &y}, 1), NG_ERROR);
    EXPECT_EQ(y.bytes(), before);
  }
}

struct Case {
  std::string type;
  int64_t m = 1, n = 1, k = 256;
  DType dtype = DType::kF32;
  bool int8 = false;
  bool x_is_km = false;  // layout in memory
};

std::string describe(const Case& c, const target::Target& target) {
  return cat(target.level, " ", c.type, " ", name_of(c.dtype), " m", c.m, " n", c.n, " k", c.k, c.int8 ? " int8" : "",
             c.x_is_km ? " swapped" : "");
}

// Returns the elements of x that are multiplied. With int8, these are rounded to multiples of 1/127 of the largest
// magnitude of their 32 elements.
std::vector<double> rounded_x(const Case& c, const Tensor& x) {
  std::vector<double> all;
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t e = 0; e < c.k; ++e) all.push_back(x.value({i, e}));
  }
  if (!c.int8) return all;
  for (size_t first = 0; first < all.size(); first += 32) {
    double most = 0;
    for (size_t i = first; i < first + 32; ++i) most = std::max(most, std::abs(all[i]));
    for (size_t i = first; i < first + 32 && most > 0; ++i)
      all[i] = std::nearbyint(static_cast<float>(all[i]) * (127 / static_cast<float>(most))) * most / 127;
  }
  return all;
}

// The weights of all rows of make_blocks(), which makes the same ones each time.
const std::vector<double>& weights_of(const std::string& type, int64_t rows, int64_t k, const Tensor& blocks) {
  static std::map<std::tuple<std::string, int64_t, int64_t>, std::vector<double>> known;
  std::vector<double>& all = known[{type, rows, k}];
  if (all.empty()) {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t e = 0; e < k; ++e) all.push_back(weight(type, blocks, row, e));
  }
  return all;
}

std::vector<char> check(const Case& c, const target::Target& target, int32_t workers) {
  SCOPED_TRACE(describe(c, target));
  const auto blocks = make_blocks(c.type, c.n, c.k, 2);
  Tensor x(c.dtype, {c.m, c.k}, c.x_is_km ? Sizes{1, c.m} : Sizes{c.k, 1}), y(c.dtype, {c.m, c.n}, {c.n, 1});
  x.fill(1);
  y.poison();
  const std::string text = cat("npugraph.quant 1 linear ", c.type, c.int8 ? " int8\n" : "\n", store_text(c.dtype));
  EXPECT_EQ(run_quant(text, target, {&x, blocks.get(), &y}, workers, {{.i = c.m}, {.i = c.n}}), NG_OK);
  const std::vector<double> factors = rounded_x(c, x), &weights = weights_of(c.type, c.n, c.k, *blocks);
  int wrong = 0;
  for (int64_t column = 0; column < c.n; ++column) {
    const double* w = weights.data() + column * c.k;
    for (int64_t row = 0; row < c.m; ++row) {
      double expected = 0, size = 0;
      for (int64_t e = 0; e < c.k; ++e) {
        const double product = w[e] * factors[static_cast<size_t>(row * c.k + e)];
        expected += product;
        size += std::abs(product);
      }
      const double rounding = c.dtype == DType::kF32 ? 0 : 0x1p-8;
      const double got = y.value({row, column});
      if (!(std::abs(got - expected) <= size * 1e-6 + std::abs(expected) * rounding) && wrong++ == 0)
        ADD_FAILURE() << "row " << row << ", column " << column << ": " << got << ", not " << expected;
    }
  }
  EXPECT_EQ(wrong, 0);
  return y.bytes();
}

TEST(Quant, MultipliesAllShapes) {
  for (const target::Target& target : target::host_targets()) {
    for (const std::string& type : kTypes) {
      for (const bool int8 : {false, true}) {
        for (const int64_t m : {0, 1, 2, 5, 8, 9, 33, 140}) check({type, m, 19, 256, DType::kF32, int8}, target, 1);
        for (const int64_t n : {1, 3, 50, 530}) {
          check({type, 1, n, 768, DType::kF32, int8}, target, 1);
          check({type, 17, n, 768, DType::kBF16, int8}, target, 1);
        }
        check({type, 3, 21, 512, DType::kBF16, int8, true}, target, 1);
        for (const int64_t m : {3, 40}) {
          for (const bool x_is_km : {false, true})
            if (target.f16c) check({type, m, 21, 512, DType::kF16, int8, x_is_km}, target, 1);
        }
        check({type, 40, 21, 512, DType::kF32, int8, true}, target, 1);
      }
    }
  }
}

TEST(Quant, GivesTheSameBitsForAnyNumberOfThreads) {
  for (const std::string& type : kTypes) {
    for (const int64_t m : {1, 4, 150}) {
      const Case c{type, m, 600, 512};
      const std::vector<char> one = check(c, target::host_target(), 1);
      for (const int32_t workers : {2, 3}) EXPECT_EQ(check(c, target::host_target(), workers), one);
    }
  }
}

// Returns the product of weights with a vector that has `element` at one place and 1 elsewhere.
std::vector<double> with_one_element(const std::string& type, bool int8, float element) {
  constexpr int64_t kColumns = 20, kElements = 256;
  const auto blocks = make_blocks(type, kColumns, kElements);
  Tensor x(DType::kF32, {1, kElements}, {kElements, 1}), y(DType::kF32, {1, kColumns}, {kColumns, 1});
  for (int64_t e = 0; e < kElements; ++e) set_element(x.at({0, e}), DType::kF32, e == 40 ? element : 1);
  const std::string text = cat("npugraph.quant 1 linear ", type, int8 ? " int8\n" : "\n", store_text(DType::kF32));
  EXPECT_EQ(run_quant(text, target::host_target(), {&x, blocks.get(), &y}, 1, {{.i = 1}, {.i = kColumns}}), NG_OK);
  std::vector<double> all;
  for (int64_t column = 0; column < kColumns; ++column) all.push_back(y.value({0, column}));
  return all;
}

TEST(Quant, PassesNaNOn) {
  for (const std::string& type : kTypes) {
    for (const bool int8 : {false, true}) {
      for (const double y : with_one_element(type, int8, std::numeric_limits<float>::quiet_NaN()))
        EXPECT_TRUE(std::isnan(y)) << type << (int8 ? " int8" : "");
      for (const double y : with_one_element(type, int8, 0x1p-140F)) EXPECT_TRUE(std::isfinite(y)) << type;
    }
  }
}

TEST(Quant, TakesVectorsOfTinyAndOfNoMagnitude) {
  for (const std::string& type : kTypes) {
    const auto blocks = make_blocks(type, 16, 256);
    for (const float element : {0.0F, 0x1p-140F}) {
      Tensor x(DType::kF32, {1, 256}, {256, 1}), y(DType::kF32, {1, 16}, {16, 1});
      for (int64_t e = 0; e < 256; ++e) set_element(x.at({0, e}), DType::kF32, element);
      ASSERT_EQ(run_quant(cat("npugraph.quant 1 linear ", type, "\n", store_text(DType::kF32)), target::host_target(),
                          {&x, blocks.get(), &y}, 1, {{.i = 1}, {.i = 16}}),
                NG_OK);
      for (int64_t column = 0; column < 16; ++column) EXPECT_NEAR(y.value({0, column}), 0, 0x1p-90) << type;
    }
  }
}

TEST(Quant, RefusesOtherTextsAndShapes) {
  const target::Target& target = target::host_target();
  for (const std::string text : {"npugraph.quant 2 rows q8_0", "npugraph.quant 1 rows q9_0", "npugraph.quant 1 rows",
                                 "npugraph.quant 1 rows q8_0 int8", "npugraph.quant 1 linear q8_0"}) {
    EXPECT_THROW(make_quant(text, target), UserError) << text;
  }
  const auto blocks = make_blocks("q4_1", 3, 64);
  Tensor x(DType::kF32, {1, 96}, {96, 1}), y(DType::kF32, {1, 3}, {3, 1});
  EXPECT_EQ(run_quant(cat("npugraph.quant 1 linear q4_1\n", store_text(DType::kF32)), target, {&x, blocks.get(), &y}, 1,
                      {{.i = 1}, {.i = 3}}),
            NG_ERROR);
}

}  // namespace
}  // namespace npugraph::codegen
