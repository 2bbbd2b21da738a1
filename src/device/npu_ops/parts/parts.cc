// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/parts/parts.h"

#include <vector>

namespace npugraph::npu_ops {

at::Tensor count_up(const at::Tensor& like, const c10::SymInt& n) {
  return at::arange(at::Scalar(n), like.options().dtype(at::kLong));
}

at::Tensor longer(const at::Tensor& x, int64_t dim, const c10::SymInt& count, const at::Scalar& value) {
  std::vector<c10::SymInt> sizes = x.sym_sizes().vec();
  sizes[at::maybe_wrap_dim(dim, x.dim())] = count;
  return at::cat({x, x.new_full_symint(sizes, value)}, dim);
}

namespace {

at::Tensor bit_values(const at::Tensor& like) {
  const auto options = like.options().dtype(at::kInt);
  return at::bitwise_left_shift(at::ones({8}, options), at::arange(8, options));
}

}  // namespace

at::Tensor pack_bits(const at::Tensor& bits) {
  return (bits.unflatten_symint(0, {-1, 8}) * bit_values(bits)).sum(1).to(at::kByte);
}

at::Tensor unpack_bits(const at::Tensor& bytes) {
  return bytes.to(at::kInt).unsqueeze(1).bitwise_and(bit_values(bytes)).ne(0).reshape(-1);
}

}  // namespace npugraph::npu_ops
