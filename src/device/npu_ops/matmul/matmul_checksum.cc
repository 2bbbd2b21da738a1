// SPDX-License-Identifier: Apache-2.0
// Products that check themselves.
#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {
namespace {

Tensor abft_verify(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& checksum_weight, double e_max) {
  const char* op = "_npu_matmul_abft_verify";
  check_dims(op, "a", a, 2, 8);
  check_dims(op, "b", b, 2, 8);
  check_dims(op, "c", c, 2, 8);
  check_dims(op, "checksum_weight", checksum_weight, 1, 2);
  const bool fits = a.sym_size(-1) == b.sym_size(-2) && c.sym_size(-2) == a.sym_size(-2) &&
                    c.sym_size(-1) == b.sym_size(-1) && checksum_weight.sym_size(0) == c.sym_size(-1);
  TORCH_CHECK(fits, op, ": a, b, c and checksum_weight have shapes ", a.sym_sizes(), ", ", b.sym_sizes(), ", ",
              c.sym_sizes(), " and ", checksum_weight.sym_sizes(),
              ", allowed are (.., m, k), (.., k, n), (.., m, n) and (n) or (n, checksums)");
  const Tensor weight = wide(checksum_weight.dim() == 1 ? checksum_weight.unsqueeze(1) : checksum_weight);
  const Tensor left = wide(a), right = wide(b);
  const Tensor difference = wide(c).matmul(weight) - left.matmul(right.matmul(weight));
  const Tensor allowed = left.abs().matmul(right.abs().matmul(weight.abs())) * e_max;
  // NaN is a fault, too.
  return difference.abs().le(allowed).all().logical_not();
}

}  // namespace

void define_matmul_checksum(OperatorLibrary& library) {
  library.add({
      .schema = "npu::_npu_matmul_abft_verify(Tensor a, Tensor b, Tensor c, Tensor checksum_weight, *, float "
                "e_max=0.001) -> Tensor",
      .kernel = parts(&abft_verify),
      .definition = "Algorithm-based fault tolerance of a matrix product by weighted checksums (Huang and Abraham, "
                    "1984): tells whether c is wrong as the result of a @ b. With w = checksum_weight, the result is "
                    "True if abs(c @ w - a @ (b @ w)) is more than e_max * abs(a) @ (abs(b) @ abs(w)), or NaN, "
                    "anywhere. a is [..., M, K], b [..., K, N], c [..., M, N] and checksum_weight [N] or [N, "
                    "checksums]; all is computed in float32. Result: one bool, without dimensions.",
  });
}

}  // namespace npugraph::npu_ops
