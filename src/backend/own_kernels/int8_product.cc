// SPDX-License-Identifier: Apache-2.0
#include "backend/own_kernels/int8_product.h"

#include <cstdlib>

#include <ATen/ops/_int_mm.h>
#include <ATen/ops/matmul.h>

namespace npugraph::own {
namespace {

// Whether the operands are valid. ATen reports errors about others.
bool are_products(const at::Tensor& x1, const at::Tensor& x2) {
  return x1.dim() == 2 && x2.dim() == 2 && x1.size(1) == x2.size(0) && x1.scalar_type() == at::kChar &&
         x2.scalar_type() == at::kChar;
}

// Whether at::_int_mm adds in 32 bits. Without AVX-512 VNNI, or if oneDNN may not use it, it adds pairs of products in
// 16 bits, where they saturate.
bool has_exact_int8_dot() {
  static const bool is_limited =
      std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr || std::getenv("DNNL_MAX_CPU_ISA") != nullptr;
#if defined(__x86_64__)
  return !is_limited && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

// The matrix without overlap, where the distance of rows of a single row is not less than its columns. at::_int_mm
// takes that distance for the one of a matrix with several rows, and then computes nothing.
at::Tensor readable(const at::Tensor& x) {
  const at::Tensor apart = without_overlap(x);
  const int64_t columns = apart.size(1);
  const bool is_row = apart.size(0) == 1 && apart.stride(1) == 1 && apart.stride(0) < columns;
  return is_row ? apart.as_strided({1, columns}, {columns, 1}) : apart;
}

}  // namespace

at::Tensor without_overlap(const at::Tensor& x) {
  const bool by_rows = x.sym_stride(1) == 1 && x.sym_stride(0) >= x.sym_size(1);
  const bool by_columns = x.sym_stride(0) == 1 && x.sym_stride(1) >= x.sym_size(0);
  return by_rows || by_columns ? x : x.contiguous();
}

at::Tensor int8_product_in_double(const at::Tensor& x1, const at::Tensor& x2) {
  return at::matmul(x1.to(at::kDouble), x2.to(at::kDouble)).to(at::kInt);
}

at::Tensor int8_product(const at::Tensor& x1, const at::Tensor& x2) {
  if (!are_products(x1, x2)) return at::_int_mm(x1, x2);
  if (!has_exact_int8_dot()) return int8_product_in_double(x1, x2);
  return at::_int_mm(readable(x1), readable(x2));
}

at::Tensor& int8_product_out(at::Tensor& out, const at::Tensor& x1, const at::Tensor& x2) {
  const bool fits =
      are_products(x1, x2) && out.scalar_type() == at::kInt && out.sizes().equals({x1.size(0), x2.size(1)});
  if (!fits) return at::_int_mm_out(out, x1, x2);
  if (!has_exact_int8_dot()) return out.copy_(int8_product_in_double(x1, x2));
  return at::_int_mm_out(out, readable(x1), readable(x2));
}

}  // namespace npugraph::own
