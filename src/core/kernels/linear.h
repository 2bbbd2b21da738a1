// SPDX-License-Identifier: Apache-2.0
// Products of small f32 matrices: y[m, n] = x[m, k] . w[k, n] + bias[n], then relu.
//
// Every element of y is one sum over k. Its order does not depend on m, the position in y or the number of threads. It
// depends on k, the strides of w, the instruction set, and on whether n or k is 1.
#pragma once

#include <cstdint>
#include <span>

namespace npugraph::kernels {

struct Product {
  int64_t m, n, k;
  const float* x;    // dense in k, or at any stride when w is dense in n
  int64_t x_m, x_k;  // strides, in elements
  const float* w;
  int64_t w_k, w_n;   // one of them is 1
  const float* bias;  // null for none
  int64_t bias_n;
  float* y;
  int64_t y_m, y_n;
  bool relu;
};

// Computes the columns [first, last) of y.
using ProductFunction = void (*)(const Product& product, int64_t first, int64_t last);

struct ProductFunctions {
  ProductFunction dense_k;  // w_k == 1 and x_k == 1
  ProductFunction dense_n;  // w_n == 1
};

// The functions that this processor can run, one entry per instruction set, the fastest first.
std::span<const ProductFunctions> product_functions();

}  // namespace npugraph::kernels
