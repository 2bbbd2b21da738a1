// SPDX-License-Identifier: Apache-2.0
// The products of every instruction set that this processor has; the test of the kernel table uses only the fastest
// one.
#include "kernels/linear.h"

#include <vector>

#include <gtest/gtest.h>

namespace npugraph::kernels {
namespace {

// Small integers: every sum is exact, whatever its order.
std::vector<float> integers(int64_t count, int64_t seed) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 7 + seed) % 11 - 5);
  return values;
}

void check(const ProductFunctions& functions, int64_t m, int64_t n, int64_t k, bool dense_k) {
  const auto x = integers(m * k, 1);
  const auto w = integers(n * k, 2);
  const auto bias = integers(n, 3);
  std::vector<float> y(m * n, -1.0f);
  const Product p{m,           n, k,        x.data(), k, 1,   w.data(), dense_k ? 1 : n, dense_k ? k : 1,
                  bias.data(), 1, y.data(), n,        1, true};
  const ProductFunction run = dense_k ? functions.dense_k : functions.dense_n;
  run(p, 0, n / 3);
  run(p, n / 3, n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float sum = bias[j];
      for (int64_t l = 0; l < k; ++l) sum += x[i * k + l] * w[l * p.w_k + j * p.w_n];
      ASSERT_EQ(y[i * n + j], sum > 0 ? sum : 0) << m << " " << n << " " << k << " " << dense_k;
    }
  }
}

TEST(Linear, EveryInstructionSetIsRight) {
  for (const ProductFunctions& functions : product_functions()) {
    for (const int64_t m : {1, 2, 3}) {
      for (const int64_t n : {1, 3, 4, 8, 15, 16, 33, 64, 75}) {
        for (const int64_t k : {0, 1, 4, 7, 16, 64, 70}) {
          check(functions, m, n, k, true);
          check(functions, m, n, k, false);
        }
      }
    }
  }
}

}  // namespace
}  // namespace npugraph::kernels
