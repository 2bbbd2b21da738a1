// SPDX-License-Identifier: Apache-2.0
// Gradients of Fourier transforms.
#include <vector>

#include "torch/npu_ops/families.h"
#include "torch/npu_ops/framework/checks.h"
#include "torch/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

// Each coefficient of the given half also stands for its conjugate, except the first one and, if the length
// is even, the last one.
Tensor fft_c2r_backward(const Tensor& grad, at::IntArrayRef dim, int64_t normalization) {
  TORCH_CHECK(!dim.empty(), "fft_c2r_backward: dim has no element");
  const Tensor half = at::_fft_r2c(grad, dim, normalization, /*onesided=*/true);
  const c10::SymInt stored = half.sym_size(dim.back());
  const Tensor place = count_up(grad, stored);
  const Tensor twice = (place > 0).logical_and(place <= at::Scalar(grad.sym_size(dim.back()) - stored));
  std::vector<c10::SymInt> sizes(grad.dim(), 1);
  sizes[at::maybe_wrap_dim(dim.back(), grad.dim())] = stored;
  return half * (twice.to(grad.scalar_type()) + 1).view_symint(sizes);
}

Tensor fft_r2c_backward(const Tensor& grad, at::IntArrayRef dim, int64_t normalization, bool onesided,
                        int64_t last_dim_size) {
  TORCH_CHECK(!dim.empty(), "fft_r2c_backward: dim has no element");
  const Tensor whole = onesided ? longer(grad, dim.back(), last_dim_size - grad.sym_size(dim.back())) : grad;
  return at::real(at::_fft_c2c(whole, dim, normalization, /*forward=*/false)).clone(at::MemoryFormat::Contiguous);
}

}  // namespace

void define_spectra(OperatorLibrary& library) {
  library.add({
      .schema = "npu::fft_c2r_backward(Tensor grad, int[] dim, int normalization) -> Tensor",
      .kernel = parts(&fft_c2r_backward),
      .definition = "The gradient of a transform from one half of a spectrum to real numbers",
  });
  library.add({
      .schema = "npu::fft_r2c_backward(Tensor grad, int[] dim, int normalization, bool onesided, int last_dim_size) -> "
                "Tensor",
      .kernel = parts(&fft_r2c_backward),
      .definition = "The gradient of a transform of real numbers, last_dim_size of them along the last of dim",
  });
}

}  // namespace npugraph::npu_ops
