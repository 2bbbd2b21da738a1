// SPDX-License-Identifier: Apache-2.0
// Gradients of Fourier transforms.
#include <vector>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"
#include "device/npu_ops/parts/parts.h"

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
      .definition = "Gradient of a complex-to-real Fourier transform (torch.fft.irfftn) with respect to its input: the "
                    "real-to-complex transform of grad over dim, in which each coefficient that also stands for its "
                    "conjugate is doubled. grad is real, with n elements along the last of dim. The result is complex, "
                    "with n // 2 + 1 elements there. normalization is the code of the forward transform: 0 for the "
                    "factor 1, 1 for 1 / sqrt(N) and 2 for 1 / N, where N is the number of elements over dim.",
  });
  library.add({
      .schema = "npu::fft_r2c_backward(Tensor grad, int[] dim, int normalization, bool onesided, int last_dim_size) -> "
                "Tensor",
      .kernel = parts(&fft_r2c_backward),
      .definition = "Gradient of a real-to-complex Fourier transform (torch.fft.rfftn) with respect to its input: the "
                    "real part of the inverse transform of grad over dim. With onesided=True, grad is half of a "
                    "spectrum, and is first extended with zeros to last_dim_size elements along the last of dim. The "
                    "result is real. normalization is the code of the forward transform, as in fft_c2r_backward.",
  });
}

}  // namespace npugraph::npu_ops
