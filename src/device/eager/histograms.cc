// SPDX-License-Identifier: Apache-2.0
// Histograms of integers, which cpu lacks.
#include <utility>

#include <ATen/Operators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>

#include "device/eager/native_kernels.h"
#include "device/eager/unboxed_kernel.h"

namespace npugraph::eager {
namespace {

using at::Scalar;
using at::Tensor;

// The begin of the first bin and the end of the last one, in int64: `min` and `max`, or, if these are equal, the range
// of the values.
std::pair<Tensor, Tensor> range_of(const Tensor& values, int64_t min, int64_t max) {
  auto number = [&](int64_t n) { return at::scalar_tensor(n, values.options()); };
  if (min < max || values.sym_numel() == 0) return {number(min), number(max)};
  const Tensor least = values.amin(), greatest = values.amax(), equal = (least == greatest).to(at::kLong);
  return {least - equal, greatest + equal};
}

// The bin of a value is (value - min) * bins / (max - min), rounded down; the last bin includes max.
Tensor of_integers(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max) {
  TORCH_CHECK(bins > 0, "histc: bins is ", bins, ", and must be positive");
  const auto least = min.to<int64_t>(), greatest = max.to<int64_t>();
  TORCH_CHECK(least <= greatest, "histc: max is ", greatest, ", and must not be less than min, which is ", least);
  const Tensor values = self.reshape(-1).to(at::kLong);
  const auto [from, to] = range_of(values, least, greatest);
  const Tensor inside = (values >= from).logical_and(values <= to);
  const Tensor scaled = (values - from) * bins;
  const Tensor bin =
      scaled.div((to - from).clamp_min(1), "floor").clamp_max(bins - 1).masked_fill(inside.logical_not(), bins);
  return values.new_zeros({bins + 1}).scatter_add(0, bin, at::ones_like(bin)).narrow(0, 0, bins).to(self.scalar_type());
}

Tensor bins_of(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max) {
  if (at::isIntegralType(self.scalar_type(), /*includeBool=*/false)) return of_integers(self, bins, min, max);
  return UnboxedKernel<op::histc>::run(self, bins, min, max);
}

Tensor& bins_into(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max, Tensor& out) {
  const Tensor made = bins_of(self, bins, min, max);
  TORCH_CHECK(out.scalar_type() == made.scalar_type(), "histc: out is of ", out.scalar_type(), ", and must be of ",
              made.scalar_type());
  return out.resize_(made.sizes()).copy_(made);
}

}  // namespace

void register_histograms(torch::Library& library) {
  library.impl("histc", &bins_of);
  library.impl("histc.out", &bins_into);
}

}  // namespace npugraph::eager
