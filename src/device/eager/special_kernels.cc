// SPDX-License-Identifier: Apache-2.0
// Kernels that accelerators have and cpu lacks: histograms of integers, fused cells of recurrent networks,
// gradients of products, dropout.
#include <array>
#include <tuple>
#include <utility>

#include <ATen/ExpandUtils.h>
#include <ATen/Operators.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>

#include "device/eager/register.h"
#include "device/eager/unboxed_kernel.h"

namespace npugraph::eager {

namespace {

using at::Scalar;
using at::Tensor;
using std::optional;

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

Tensor or_none(const optional<Tensor>& tensor) { return tensor.value_or(Tensor()); }

Tensor plus(const Tensor& sum, const optional<Tensor>& bias) {
  return bias.has_value() && bias->defined() ? sum + *bias : sum;
}

// Gates i, f, g, o of a cell, from torch.nn.LSTM's definition. The workspace
// is the gates after their activation functions.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  const Tensor gates = plus(input_gates, input_bias) + plus(hidden_gates, hidden_bias);
  auto parts = gates.chunk(4, 1);
  const Tensor i = parts[0].sigmoid(), f = parts[1].sigmoid(), g = parts[2].tanh(), o = parts[3].sigmoid();
  Tensor cy = f * cx + i * g;
  Tensor hy = o * cy.tanh();
  return {hy, cy, at::cat({i, f, g, o}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const optional<Tensor>& grad_hy, const optional<Tensor>& grad_cy,
                                                      const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                      bool has_bias) {
  const Tensor hy_in = or_none(grad_hy), cy_in = or_none(grad_cy);
  if (!hy_in.defined() && !cy_in.defined()) return {};
  auto parts = workspace.chunk(4, 1);
  const Tensor &i = parts[0], &f = parts[1], &g = parts[2], &o = parts[3];
  const Tensor tanh_cy = cy.tanh();
  Tensor d_cy = cy_in.defined() ? cy_in : at::zeros_like(cy);
  Tensor d_o = at::zeros_like(o);
  if (hy_in.defined()) {
    d_cy = d_cy + hy_in * o * (1 - tanh_cy * tanh_cy);
    d_o = hy_in * tanh_cy * o * (1 - o);
  }
  Tensor gates = at::cat({d_cy * g * i * (1 - i), d_cy * cx * f * (1 - f), d_cy * i * (1 - g * g), d_o}, 1);
  Tensor bias = has_bias ? gates.sum(0, /*keepdim=*/false) : Tensor();
  return {gates, d_cy * f, bias};
}

// Gates r, z, n of a cell, from torch.nn.GRU's definition. The workspace is r, z, n, hx and the hidden part of n.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  auto in = plus(input_gates, input_bias).chunk(3, 1);
  auto hidden = plus(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor r = (in[0] + hidden[0]).sigmoid(), z = (in[1] + hidden[1]).sigmoid();
  const Tensor n = (in[2] + r * hidden[2]).tanh();
  return {n + z * (hx - n), at::cat({r, z, n, hx, hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                     bool has_bias) {
  auto parts = workspace.chunk(5, 1);
  const Tensor &r = parts[0], &z = parts[1], &n = parts[2], &hx = parts[3], &hidden_n = parts[4];
  const Tensor d_n = grad_hy * (1 - z) * (1 - n * n);
  const Tensor d_z = grad_hy * (hx - n) * z * (1 - z);
  const Tensor d_r = d_n * hidden_n * r * (1 - r);
  Tensor input_gates = at::cat({d_r, d_z, d_n}, 1);
  Tensor hidden_gates = at::cat({d_r, d_z, d_n * r}, 1);
  Tensor input_bias = has_bias ? input_gates.sum(0, false) : Tensor();
  Tensor hidden_bias = has_bias ? hidden_gates.sum(0, false) : Tensor();
  return {input_gates, hidden_gates, grad_hy * z, input_bias, hidden_bias};
}

// The gradients of self and other of at::matmul that `mask` selects. A
// vector on the left is a row, on the right a column.
std::tuple<Tensor, Tensor> matmul_backward(const Tensor& grad, const Tensor& self, const Tensor& other,
                                           std::array<bool, 2> mask) {
  if (!grad.defined()) return {};
  const bool row = self.dim() == 1, column = other.dim() == 1;
  const Tensor left = row ? self.unsqueeze(0) : self, right = column ? other.unsqueeze(1) : other;
  Tensor dy = column ? grad.unsqueeze(-1) : grad;
  if (row) dy = dy.unsqueeze(-2);
  auto gradient = [](const Tensor& product, const Tensor& whole, const Tensor& of) {
    return at::sum_to(product, whole.sym_sizes()).reshape_symint(of.sym_sizes()).to(of.scalar_type());
  };
  return {mask[0] ? gradient(at::matmul(dy, right.mH()), left, self) : Tensor(),
          mask[1] ? gradient(at::matmul(left.mH(), dy), right, other) : Tensor()};
}

// Draws from the generator of npu, in the order in which cpu draws from its own.
std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, optional<bool> train) {
  if (input.numel() == 0 || !train.value_or(true))
    return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  Tensor mask = at::empty_like(input, input.options().dtype(at::kBool)).bernoulli_(1 - p);
  return {input.mul(mask).mul_(p == 1 ? 0. : 1. / (1. - p)), mask};
}

}  // namespace

void register_special_kernels(torch::Library& library) {
  library.impl("histc", &bins_of);
  library.impl("histc.out", &bins_into);
  library.impl("_thnn_fused_lstm_cell", &lstm_cell);
  library.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  library.impl("_thnn_fused_gru_cell", &gru_cell);
  library.impl("_thnn_fused_gru_cell_backward", &gru_cell_backward);
  library.impl("matmul_backward", &matmul_backward);
  library.impl("native_dropout", &native_dropout);
}

void register_attention_choice() {
  using at::native::_fused_sdp_choice_stub;
  static const at::native::RegisterPRIVATEUSE1Dispatch<at::native::_fused_sdp_choice_stub_DECLARE_DISPATCH_type>
      registration(_fused_sdp_choice_stub, &at::native::_fused_sdp_choice_cpp);  // looks at sizes, types and gradients
}

}  // namespace npugraph::eager
