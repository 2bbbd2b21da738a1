// SPDX-License-Identifier: Apache-2.0
// Gradients of torch operators, in closed form.
#include <cmath>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

using c10::SymInt;

Tensor gather_backward(const Tensor& grad, at::SymIntArrayRef self_size, int64_t dim, const Tensor& index,
                       bool sparse_grad) {
  constexpr const char* kOp = "npu_gather_backward";
  TORCH_CHECK_NOT_IMPLEMENTED(!sparse_grad, kOp, ": sparse_grad is True, allowed is False");
  check_same_shape(kOp, "grad", grad, "index", index);
  return grad.new_zeros_symint(self_size).scatter_add(dim, index.to(at::kLong), grad);
}

// The gradient for x of `norm`, its p-norm over the dimensions `others`; zero where the norm is zero.
Tensor of_norm(const Tensor& x, const Tensor& norm, double p, at::IntArrayRef others) {
  const Tensor size = x.abs();
  if (std::isinf(p)) {
    const Tensor greatest = size == norm;
    return x.sign() * greatest / greatest.sum(others, true);
  }
  const Tensor part = (size / norm.masked_fill(norm == 0, 1)).pow(p - 1);
  return (x.sign() * part).masked_fill(x == 0, 0);
}

Tensor renorm_backward(const Tensor& grad, const Tensor& input, const at::Scalar& p, int64_t dim,
                       const at::Scalar& maxnorm) {
  constexpr const char* kOp = "npu_renorm_backward";
  constexpr double kEpsilon = 1e-7;  // torch.renorm adds it to the norm
  check_floating(kOp, "input", input);
  check_same_shape(kOp, "grad", grad, "input", input);
  TORCH_CHECK(p.toDouble() > 0, kOp, ": p is ", p.toDouble(), ", allowed is more than 0");
  std::vector<int64_t> others;
  for (int64_t other = 0; other < input.dim(); ++other)
    if (other != at::maybe_wrap_dim(dim, input.dim())) others.push_back(other);
  const Tensor x = wide(input), of_result = wide(grad);
  const Tensor norm = at::linalg_vector_norm(x, p, others, /*keepdim=*/true);
  const Tensor scale = at::reciprocal(norm + kEpsilon) * maxnorm;
  const Tensor by_norm = (of_result * x).sum(others, true) * scale.square() / maxnorm;
  const Tensor scaled = of_result * scale - by_norm * of_norm(x, norm, p.toDouble(), others);
  return at::where(norm > maxnorm, scaled, of_result).to(input.scalar_type());
}

// A window of `n_fft` elements, with the window of the call, or ones, in its middle.
Tensor whole_window(const char* op, const Tensor& like, const OptionalTensor& window, int64_t win_length,
                    int64_t n_fft) {
  TORCH_CHECK(win_length > 0 && win_length <= n_fft, op, ": win_length is ", win_length, ", allowed are 1 to n_fft, ",
              n_fft);
  const Tensor given = window ? *window : like.new_ones({win_length});
  TORCH_CHECK(given.dim() == 1 && given.sym_size(0) == win_length, op, ": window has shape ", given.sym_sizes(),
              ", allowed is [win_length], ", win_length);
  const int64_t left = (n_fft - win_length) / 2;
  return at::constant_pad_nd(given, {left, n_fft - win_length - left});
}

Tensor stft_backward(const Tensor& grad_output, const Tensor& input, int64_t n_fft, std::optional<int64_t> hop_length,
                     std::optional<int64_t> win_length, const OptionalTensor& window, bool normalized,
                     std::optional<bool> onesided, std::optional<bool>) {
  constexpr const char* kOp = "stft_backward";
  const int64_t hop = hop_length.value_or(n_fft / 4);
  TORCH_CHECK(n_fft > 0 && hop > 0, kOp, ": n_fft is ", n_fft, " and hop_length ", hop, ", allowed are 1 and more");
  check_dims(kOp, "input", input, 1, 2);
  const Tensor grad = grad_output.is_complex() ? grad_output : at::view_as_complex(grad_output.contiguous());
  const bool real = !input.is_complex();
  check_dims(kOp, "grad_output, as complex numbers,", grad, input.dim() + 1, input.dim() + 1);
  const Tensor spectra = (input.dim() == 1 ? grad.unsqueeze(0) : grad).transpose(1, 2);  // [B, frames, frequencies]
  const bool half = real && onesided.value_or(true);
  TORCH_CHECK(spectra.sym_size(2) == (half ? n_fft / 2 + 1 : n_fft), kOp, ": grad_output has ", spectra.sym_size(2),
              " frequencies, allowed are ", half ? n_fft / 2 + 1 : n_fft);
  const Tensor all = half ? longer(spectra, 2, n_fft - spectra.sym_size(2)) : spectra;
  constexpr int64_t kPlain = 0, kByRoot = 1;
  const Tensor rows = at::_fft_c2c(all.flatten(0, 1), {1}, normalized ? kByRoot : kPlain, /*forward=*/false);
  const Tensor frames = rows.view_symint(all.sym_sizes());
  const Tensor mine = real ? at::real(frames) : frames;
  const Tensor weighted = mine * whole_window(kOp, mine, window, win_length.value_or(n_fft), n_fft).conj();
  const SymInt length = input.sym_size(-1);
  const Tensor out = at::unfold_backward_symint(weighted, {weighted.sym_size(0), length}, 1, n_fft, hop);
  return input.dim() == 1 ? out.squeeze(0) : out;
}

}  // namespace

void define_gradients(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_gather_backward(Tensor grad, SymInt[] self_size, int dim, Tensor index, bool sparse_grad) -> "
                "Tensor",
      .kernel = parts(&gather_backward),
      .definition = "Gradient of torch.gather with respect to self: zeros of shape self_size, to which grad is added "
                    "at the positions index along dim. grad and index have the same shape, and the result has the type "
                    "of grad. sparse_grad must be False.",
  });
  library.add({
      .schema = "npu::npu_renorm_backward(Tensor grad, Tensor input, Scalar p, int dim, Scalar maxnorm) -> Tensor",
      .kernel = parts(&renorm_backward),
      .definition = "Gradient of torch.renorm with respect to input, of the shape and type of input. It is computed "
                    "for each slice of input along dim, whose p-norm is n: where n > maxnorm, it is grad * s - "
                    "sum(grad * input) * s^2 / maxnorm * dn/dinput with s = maxnorm / (n + 1e-7). Elsewhere it is "
                    "grad. p must be more than 0.",
  });
  library.add({
      .schema =
          "npu::stft_backward(Tensor grad_output, Tensor input, int n_fft, int? hop_length=None, int? win_length=None, "
          "Tensor? window=None, bool normalized=False, bool? onesided=None, bool? return_complex=None) -> Tensor",
      .kernel = parts(&stft_backward),
      .definition = "Gradient of torch.stft with center=False with respect to input, which is [L] or [B, L]. The "
                    "inverse transform of each frame of grad_output is multiplied by window and added up where frames "
                    "overlap. grad_output is the gradient of the result, complex or as pairs of real numbers. The "
                    "other arguments and their defaults are those of torch.stft; return_complex is ignored.",
  });
}

}  // namespace npugraph::npu_ops
