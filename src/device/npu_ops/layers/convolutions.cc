// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients.
#include <array>
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {
namespace {

using at::IntArrayRef;

constexpr std::array<int64_t, 3> kNothing = {0, 0, 0};

IntArrayRef no_output_padding(const Tensor& input) { return IntArrayRef(kNothing).slice(0, input.dim() - 2); }

// Convolutions of images (dims 4) or volumes (5).
template <int64_t dims>
Tensor plain_convolution(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, IntArrayRef stride,
                         IntArrayRef padding, IntArrayRef dilation, int64_t groups) {
  check_dims(dims == 4 ? "npu_conv2d" : "npu_conv3d", "input", input, dims, dims);
  if constexpr (dims == 4) return at::conv2d(input, weight, bias, stride, padding, dilation, groups);
  return at::conv3d(input, weight, bias, stride, padding, dilation, groups);
}

template <int64_t dims>
Tensor& plain_convolution_out(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, IntArrayRef stride,
                              IntArrayRef padding, IntArrayRef dilation, int64_t groups, Tensor& out) {
  const Tensor result = plain_convolution<dims>(input, weight, bias, stride, padding, dilation, groups);
  check_same_shape(dims == 4 ? "npu_conv2d" : "npu_conv3d", "out", out, "the result", result);
  return out.copy_(result);
}

Tensor convolution(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation, int64_t groups) {
  check_dims("npu_convolution", "input", input, 4, 5);
  return at::convolution(input, weight, bias, stride, padding, dilation, false, no_output_padding(input), groups);
}

Tensor transposed(const char* op, const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                  IntArrayRef padding, IntArrayRef output_padding, IntArrayRef stride, IntArrayRef dilation,
                  int64_t groups, int64_t most_dims) {
  check_dims(op, "input", input, 4, most_dims);
  return at::convolution(input, weight, bias, stride, padding, dilation, true, output_padding, groups);
}

Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, IntArrayRef padding,
                        IntArrayRef output_padding, IntArrayRef stride, IntArrayRef dilation, int64_t groups) {
  return transposed("npu_conv_transpose2d", input, weight, bias, padding, output_padding, stride, dilation, groups, 4);
}

Tensor convolution_transpose(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, IntArrayRef padding,
                             IntArrayRef output_padding, IntArrayRef stride, IntArrayRef dilation, int64_t groups) {
  return transposed("npu_convolution_transpose", input, weight, bias, padding, output_padding, stride, dilation, groups,
                    5);
}

// Gradients that are not asked for are empty.
Three asked_for(const Three& grads, const std::array<bool, 3>& mask, const Tensor& like) {
  const auto some = [&](const Tensor& grad, bool asked) { return asked ? grad : like.new_empty({0}); };
  return {some(std::get<0>(grads), mask[0]), some(std::get<1>(grads), mask[1]), some(std::get<2>(grads), mask[2])};
}

Three convolution_backward(const Tensor& input, const Tensor& grad, const Tensor& weight, IntArrayRef stride,
                           IntArrayRef padding, IntArrayRef dilation, int64_t groups, std::array<bool, 3> mask) {
  const auto bias_sizes = weight.sym_sizes().slice(0, 1);
  return asked_for(
      at::convolution_backward_symint(grad, input, weight, bias_sizes, c10::fromIntArrayRefSlow(stride),
                                      c10::fromIntArrayRefSlow(padding), c10::fromIntArrayRefSlow(dilation), false,
                                      c10::fromIntArrayRefSlow(no_output_padding(input)), groups, mask),
      mask, input);
}

Three transposed_backward(const Tensor& input, const Tensor& grad, const Tensor& weight, IntArrayRef padding,
                          IntArrayRef output_padding, IntArrayRef stride, IntArrayRef dilation, int64_t groups,
                          std::array<bool, 3> mask) {
  const std::array<c10::SymInt, 1> bias_sizes = {weight.sym_size(1) * groups};
  return asked_for(at::convolution_backward_symint(grad, input, weight, at::SymIntArrayRef(bias_sizes),
                                                   c10::fromIntArrayRefSlow(stride), c10::fromIntArrayRefSlow(padding),
                                                   c10::fromIntArrayRefSlow(dilation), true,
                                                   c10::fromIntArrayRefSlow(output_padding), groups, mask),
                   mask, input);
}

Two conv_depthwise2d_backward(const Tensor& grad, const Tensor& input, const Tensor& weight, IntArrayRef,
                              IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, std::array<bool, 2> mask) {
  // One group for each channel; the number of channels is not a symbol in any model.
  const int64_t groups = input.sym_size(1).guard_int(__FILE__, __LINE__);
  const auto [of_input, of_weight, of_bias] =
      convolution_backward(input, grad, weight, stride, padding, dilation, groups, {mask[0], mask[1], false});
  return {of_input, of_weight};
}

Three slow_conv_dilated2d_backward(const Tensor& grad, const Tensor& input, const Tensor& weight, IntArrayRef,
                                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                                   std::array<bool, 3> mask) {
  return convolution_backward(input, grad, weight, stride, padding, dilation, 1, mask);
}

Three slow_conv_transpose2d_backward(const Tensor& grad, const Tensor& input, const Tensor& weight, IntArrayRef,
                                     IntArrayRef stride, IntArrayRef padding, IntArrayRef output_padding,
                                     IntArrayRef dilation, std::array<bool, 3> mask) {
  return transposed_backward(input, grad, weight, padding, output_padding, stride, dilation, 1, mask);
}

}  // namespace

void define_convolutions(OperatorLibrary& library) {
  library.add({
      .schema =
          "npu::_conv_depthwise2d_backward(Tensor grad_output, Tensor input, Tensor weight, int[2] kernel_size, int[2] "
          "stride, int[2] padding, int[2] dilation, bool[2] output_mask) -> (Tensor grad_input, Tensor grad_weight)",
      .kernel = parts(&conv_depthwise2d_backward),
      .definition = "Gradients of a depthwise 2-D convolution, which has as many groups as input has channels, with "
                    "respect to input and weight. input is [N, C, H, W], weight [O, 1, kH, kW] with O a multiple of C. "
                    "kernel_size is ignored, because weight has it. output_mask says which gradients are computed; an "
                    "empty tensor takes the place of each of the others.",
  });
  library.add({
      .schema = "npu::npu_conv2d(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] "
                "dilation, int groups) -> Tensor",
      .kernel = parts(&plain_convolution<4>),
      .definition = "torch.nn.functional.conv2d of input [N, C, H, W] with weight [O, C / groups, kH, kW] and bias "
                    "[O]. stride, padding and dilation have one value, or one for each spatial dimension. The result "
                    "is [N, O, H_out, W_out].",
  });
  library.add({
      .schema = "npu::npu_conv2d.out(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] "
                "dilation, int groups, *, Tensor(a!) out) -> Tensor(a!)",
      .kernel = composite(&plain_convolution_out<4>),
      .definition = "npu_conv2d that writes its result into out and returns out, which must have the shape of the "
                    "result.",
  });
  library.add({
      .schema = "npu::npu_conv2d_backward(Tensor input, Tensor grad_output, Tensor weight, int[] stride, int[] "
                "padding, int[] dilation, int groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&convolution_backward),
      .definition = "Gradients of npu_conv2d with respect to input, weight and bias, from the gradient grad_output of "
                    "its result. output_mask says which gradients are computed; an empty tensor takes the place of "
                    "each of the others.",
  });
  library.add({
      .schema = "npu::npu_conv3d(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] "
                "dilation, int groups) -> Tensor",
      .kernel = parts(&plain_convolution<5>),
      .definition = "torch.nn.functional.conv3d of input [N, C, D, H, W] with weight [O, C / groups, kD, kH, kW] and "
                    "bias [O]. stride, padding and dilation have one value, or one for each spatial dimension. The "
                    "result is [N, O, D_out, H_out, W_out].",
  });
  library.add({
      .schema = "npu::npu_conv3d.out(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] "
                "dilation, int groups, *, Tensor(a!) out) -> Tensor(a!)",
      .kernel = composite(&plain_convolution_out<5>),
      .definition = "npu_conv3d that writes its result into out and returns out, which must have the shape of the "
                    "result.",
  });
  library.add({
      .schema = "npu::npu_conv3d_backward(Tensor input, Tensor grad, Tensor weight, int[] stride, int[] padding, int[] "
                "dilation, int groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&convolution_backward),
      .definition = "Gradients of npu_conv3d with respect to input, weight and bias, from the gradient grad of its "
                    "result. output_mask says which gradients are computed; an empty tensor takes the place of each of "
                    "the others.",
  });
  library.add({
      .schema = "npu::npu_conv_transpose2d(Tensor input, Tensor weight, Tensor? bias, int[] padding, int[] "
                "output_padding, int[] stride, int[] dilation, int groups) -> Tensor",
      .kernel = parts(&conv_transpose2d),
      .definition = "torch.nn.functional.conv_transpose2d of input [N, C, H, W] with weight [C, O / groups, kH, kW] "
                    "and bias [O]. padding and output_padding precede stride and dilation in the list of arguments. "
                    "The result is [N, O, H_out, W_out].",
  });
  library.add({
      .schema =
          "npu::npu_conv_transpose2d_backward(Tensor input, Tensor grad_output, Tensor weight, int[] padding, int[] "
          "output_padding, int[] stride, int[] dilation, int groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&transposed_backward),
      .definition = "Gradients of npu_conv_transpose2d with respect to input, weight and bias, from the gradient "
                    "grad_output of its result. output_mask says which gradients are computed; an empty tensor takes "
                    "the place of each of the others.",
  });
  library.add({
      .schema =
          "npu::npu_conv_transpose3d_backward(Tensor input, Tensor grad_output, Tensor weight, int[] padding, int[] "
          "output_padding, int[] stride, int[] dilation, int groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&transposed_backward),
      .definition = "Gradients of torch.nn.functional.conv_transpose3d with respect to input, weight and bias, from "
                    "the gradient grad_output of its result. The arguments are those of npu_convolution_transpose. "
                    "output_mask says which gradients are computed; an empty tensor takes the place of each of the "
                    "others.",
  });
  library.add({
      .schema = "npu::npu_convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] "
                "dilation, int groups) -> Tensor",
      .kernel = parts(&convolution),
      .definition = "torch.convolution without transposition: npu_conv2d of an input with four dimensions, npu_conv3d "
                    "of an input with five.",
  });
  library.add({
      .schema = "npu::npu_convolution_backward(Tensor input, Tensor grad_output, Tensor weight, int[] stride, int[] "
                "padding, int[] dilation, int groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&convolution_backward),
      .definition = "Gradients of npu_convolution with respect to input, weight and bias, from the gradient "
                    "grad_output of its result. output_mask says which gradients are computed; an empty tensor takes "
                    "the place of each of the others.",
  });
  library.add({
      .schema = "npu::npu_convolution_transpose(Tensor input, Tensor weight, Tensor? bias, int[] padding, int[] "
                "output_padding, int[] stride, int[] dilation, int groups) -> Tensor",
      .kernel = parts(&convolution_transpose),
      .definition = "torch.convolution with transposition: npu_conv_transpose2d of an input with four dimensions, "
                    "torch.nn.functional.conv_transpose3d of an input with five.",
  });
  library.add({
      .schema = "npu::npu_convolution_transpose_backward(Tensor input, Tensor grad, Tensor weight, int[] padding, "
                "int[] output_padding, int[] stride, int[] dilation, int groups, bool[3] grad_input_mask) -> (Tensor, "
                "Tensor, Tensor)",
      .kernel = parts(&transposed_backward),
      .definition = "Gradients of npu_convolution_transpose with respect to input, weight and bias, from the gradient "
                    "grad of its result. grad_input_mask says which gradients are computed; an empty tensor takes the "
                    "place of each of the others.",
  });
  library.add({
      .schema = "npu::slow_conv_dilated2d_backward(Tensor grad_output, Tensor input, Tensor weight, int[2] "
                "kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool[3] output_mask) -> (Tensor "
                "grad_input, Tensor grad_weight, Tensor grad_bias)",
      .kernel = parts(&slow_conv_dilated2d_backward),
      .definition = "Gradients of torch.nn.functional.conv2d without groups, but with dilation, with respect to input, "
                    "weight and bias, from the gradient grad_output of its result. kernel_size is ignored, because "
                    "weight has it. output_mask says which gradients are computed; an empty tensor takes the place of "
                    "each of the others.",
  });
  library.add({
      .schema = "npu::slow_conv_transpose2d_backward(Tensor grad_output, Tensor input, Tensor weight, int[2] "
                "kernel_size, int[2] stride, int[2] padding, int[2] output_padding, int[2] dilation, bool[3] "
                "output_mask) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
      .kernel = parts(&slow_conv_transpose2d_backward),
      .definition = "Gradients of torch.nn.functional.conv_transpose2d without groups with respect to input, weight "
                    "and bias, from the gradient grad_output of its result. kernel_size is ignored, because weight has "
                    "it. output_mask says which gradients are computed; an empty tensor takes the place of each of the "
                    "others.",
  });
}

}  // namespace npugraph::npu_ops
