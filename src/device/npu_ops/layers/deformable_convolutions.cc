// SPDX-License-Identifier: Apache-2.0
// Convolutions that read their input at positions that are an input, too (Dai et al., 2017; with weights for these
// positions: Zhu et al., 2019).
#include <array>
#include <vector>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

using at::IntArrayRef;
using c10::SymInt;

struct Deformable {
  const char* op;
  IntArrayRef kernel;                     // rows, columns
  IntArrayRef stride, padding, dilation;  // of N, C, H, W; padding of top, bottom, left, right
  int64_t groups, deformable_groups;
  bool modulated;

  int64_t taps() const { return deformable_groups * kernel[0] * kernel[1]; }
  int64_t parts() const { return modulated ? 3 : 2; }
};

// Size of the result along dimension 2 or 3.
SymInt convolved_size(const Deformable& how, const Tensor& input, int64_t dim) {
  const int64_t axis = dim - 2, reach = how.dilation[dim] * (how.kernel[axis] - 1) + 1;
  return (input.sym_size(dim) + (how.padding[2 * axis] + how.padding[2 * axis + 1] - reach)) / how.stride[dim] + 1;
}

void check_deformable(const Deformable& how, const Tensor& input, const Tensor& weight, const Tensor& offset) {
  check_floating(how.op, "input", input);
  for (const auto& [name, tensor] :
       {std::pair("input", &input), std::pair("weight", &weight), std::pair("offset", &offset)})
    check_dims(how.op, name, *tensor, 4, 4);
  for (const auto& [name, four] :
       {std::pair("stride", how.stride), std::pair("padding", how.padding), std::pair("dilation", how.dilation)})
    TORCH_CHECK(four.size() == 4, how.op, ": ", name, " has ", four.size(), " elements, allowed are 4");
  TORCH_CHECK(weight.sym_size(2) == how.kernel[0] && weight.sym_size(3) == how.kernel[1], how.op, ": kernel_size is ",
              how.kernel, ", weight has shape ", weight.sym_sizes());
  const bool fits = offset.sym_size(0) == input.sym_size(0) && offset.sym_size(1) == how.parts() * how.taps() &&
                    offset.sym_size(2) == convolved_size(how, input, 2) &&
                    offset.sym_size(3) == convolved_size(how, input, 3);
  TORCH_CHECK(fits, how.op, ": offset has shape ", offset.sym_sizes(), ", allowed is [", input.sym_size(0), ", ",
              how.parts() * how.taps(), ", ", convolved_size(how, input, 2), ", ", convolved_size(how, input, 3), "]");
}

// Coordinates along one axis at which the input is read, [N, G, rows, columns, height, width]: those of plain
// convolutions plus `offset`.
Tensor read_along(const Deformable& how, const Tensor& offset, int64_t axis) {
  const Tensor step = count_up(offset, offset.sym_size(4 + axis)) * how.stride[2 + axis] - how.padding[2 * axis];
  const Tensor tap = at::arange(how.kernel[axis], step.options()) * how.dilation[2 + axis];
  // Taps and steps are in different dimensions.
  const Tensor taps = axis == 0 ? tap.view({-1, 1, 1, 1}) : tap.view({-1, 1, 1});
  return offset + taps + (axis == 0 ? step.unsqueeze(1) : step);
}

// One of the four elements of maps [N, G, C / G, H * W] that each sample is interpolated from. There are S = rows *
// columns * height * width samples.
struct SampleCorner {
  Tensor places;                    // [N, G, 1, S]
  Tensor weight, along_x, along_y;  // and its derivatives along x and y
};

struct Reading {
  Tensor maps;
  Tensor mask;  // 1 if the convolution is not modulated
  std::vector<SampleCorner> corners;
};

SampleCorner corner_at(const Tensor& x, const Tensor& y, int64_t right, int64_t down, const SymInt& height,
                       const SymInt& width) {
  const Tensor left = x.floor(), top = y.floor();
  const Tensor column = left.to(at::kLong) + right, row = top.to(at::kLong) + down;
  const Tensor inside =
      (column >= 0).logical_and(column < at::Scalar(width)).logical_and(row >= 0).logical_and(row < at::Scalar(height));
  const Tensor of_column = right == 1 ? x - left : 1 - (x - left), of_row = down == 1 ? y - top : 1 - (y - top);
  const Tensor place = (row * at::Scalar(width) + column).masked_fill(inside.logical_not(), 0);
  return {place, of_row * of_column * inside, of_row * inside * (right == 1 ? 1 : -1),
          of_column * inside * (down == 1 ? 1 : -1)};
}

Reading reading_of(const Deformable& how, const Tensor& input, const Tensor& offset) {
  const int64_t groups = how.deformable_groups;
  const SymInt images = input.sym_size(0), height = input.sym_size(2), width = input.sym_size(3);
  const auto parts = wide(offset)
                         .view_symint({images, how.parts(), groups, how.kernel[0], how.kernel[1], offset.sym_size(2),
                                       offset.sym_size(3)})
                         .unbind(1);
  const auto flat = [&](const Tensor& values) { return values.reshape_symint({images, groups, 1, -1}); };
  const Tensor x = flat(read_along(how, parts[0], 1)), y = flat(read_along(how, parts[1], 0));
  Reading out = {wide(input).reshape_symint({images, groups, -1, height * width}),
                 how.modulated ? flat(parts[2]) : at::ones_like(x),
                 {}};
  for (const int64_t down : {0, 1})
    for (const int64_t right : {0, 1}) out.corners.push_back(corner_at(x, y, right, down, height, width));
  return out;
}

Tensor values_at(const Reading& reading, const SampleCorner& corner) {
  const auto& maps = reading.maps;
  return maps.gather(3, corner.places.expand_symint({-1, -1, maps.sym_size(2), -1}));
}

// Samples, [N, G, C / G, S], before the mask.
Tensor samples_of(const Reading& reading) {
  Tensor sum;
  for (const SampleCorner& corner : reading.corners) {
    const Tensor part = values_at(reading, corner) * corner.weight;
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

// Samples as images in which the taps of one position of the result are a block, and back.
Tensor as_blocks(const Deformable& how, const Tensor& samples, const Tensor& input, const Tensor& offset) {
  const SymInt height = offset.sym_size(2), width = offset.sym_size(3);
  const Tensor taps =
      samples.reshape_symint({input.sym_size(0), input.sym_size(1), how.kernel[0], how.kernel[1], height, width});
  return taps.permute({0, 1, 4, 2, 5, 3})
      .reshape_symint({input.sym_size(0), input.sym_size(1), height * how.kernel[0], width * how.kernel[1]});
}

Tensor from_blocks(const Deformable& how, const Tensor& blocks, const Tensor& input, const Tensor& offset) {
  const Tensor places = blocks.reshape_symint(
      {input.sym_size(0), input.sym_size(1), offset.sym_size(2), how.kernel[0], offset.sym_size(3), how.kernel[1]});
  return places.permute({0, 1, 3, 5, 2, 4})
      .reshape_symint({input.sym_size(0), how.deformable_groups, input.sym_size(1) / how.deformable_groups, -1});
}

Two deformable_conv2d(const Tensor& input, const Tensor& weight, const Tensor& offset, const OptionalTensor& bias,
                      IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t groups,
                      int64_t deformable_groups, bool modulated) {
  const Deformable how = {"npu_deformable_conv2d", kernel,   stride, padding, dilation, groups,
                          deformable_groups,       modulated};
  check_deformable(how, input, weight, offset);
  const Reading reading = reading_of(how, input, offset);
  const Tensor blocks = as_blocks(how, samples_of(reading) * reading.mask, input, offset);
  const Tensor out =
      at::conv2d(blocks, wide(weight), wide(bias), kernel, IntArrayRef({0, 0}), IntArrayRef({1, 1}), groups);
  return {out.to(input.scalar_type()), blocks.to(input.scalar_type())};
}

// Gradients of maps and offsets, from those of samples.
Two reading_backward(const Deformable& how, const Reading& reading, const Tensor& grad, const Tensor& offset) {
  const Tensor masked = grad * reading.mask;
  Tensor of_maps = at::zeros_like(reading.maps), of_x = at::zeros_like(reading.mask), of_y = of_x;
  for (const SampleCorner& corner : reading.corners) {
    const Tensor places = corner.places.expand_symint({-1, -1, grad.sym_size(2), -1});
    of_maps = of_maps.scatter_add(3, places, masked * corner.weight);
    const Tensor along = (masked * values_at(reading, corner)).sum(2, /*keepdim=*/true);
    of_x = of_x + along * corner.along_x;
    of_y = of_y + along * corner.along_y;
  }
  std::vector<Tensor> parts = {of_x, of_y};
  if (how.modulated) parts.push_back((grad * samples_of(reading)).sum(2, /*keepdim=*/true));
  return {of_maps, at::stack(parts, 1).view_symint(offset.sym_sizes())};
}

Four deformable_conv2d_backward(const Tensor& input, const Tensor& grad, const Tensor& blocks, const Tensor& weight,
                                const Tensor& offset, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                                IntArrayRef dilation, int64_t groups, int64_t deformable_groups, bool modulated) {
  const Deformable how = {"npu_deformable_conv2dbk", kernel,   stride, padding, dilation, groups,
                          deformable_groups,         modulated};
  check_deformable(how, input, weight, offset);
  const std::array<SymInt, 2> step = {kernel[0], kernel[1]}, none = {0, 0}, one = {1, 1};
  const std::array<SymInt, 1> channels = {weight.sym_size(0)};
  const auto [of_blocks, of_weight, of_bias] =
      at::convolution_backward_symint(wide(grad), wide(blocks), wide(weight), at::SymIntArrayRef(channels), step, none,
                                      one, /*transposed=*/false, none, groups, {true, true, true});
  const Tensor of_samples = from_blocks(how, of_blocks, input, offset);
  const auto [of_maps, of_offset] = reading_backward(how, reading_of(how, input, offset), of_samples, offset);
  return {of_maps.reshape_symint(input.sym_sizes()).to(input.scalar_type()), of_weight.to(weight.scalar_type()),
          of_offset.to(offset.scalar_type()), of_bias.to(grad.scalar_type())};
}

}  // namespace

void define_deformable_convolutions(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_deformable_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor? bias, int[2] "
                "kernel_size, int[] stride, int[] padding, int[4] dilation=[1, 1, 1, 1], int groups=1, int "
                "deformable_groups=1, bool modulated=True) -> (Tensor, Tensor)",
      .kernel = parts(&deformable_conv2d),
      .definition = "Deformable convolution (Dai et al., 2017; modulated: Zhu et al., 2019): a 2-D convolution that "
                    "samples input bilinearly at positions shifted by offset, with zeros outside of the image. input "
                    "is [N, C, H, W], weight [O, C / groups, kH, kW], bias [O]. offset is [N, P * deformable_groups * "
                    "kH * kW, H_out, W_out], where P is 3 if modulated and 2 if not. It is read as [N, P, "
                    "deformable_groups, kH, kW, H_out, W_out]: first the x offsets, then the y offsets and, if "
                    "modulated, the factors of the samples. Ascend does not publish the order of these channels. Each "
                    "group of offsets moves an equal part of the channels of input, in their order. stride and "
                    "dilation have 4 values, for N, C, H and W, of which the first two are ignored, and padding has 4: "
                    "top, bottom, left and right. Results, in the type of input: the convolution [N, O, H_out, W_out], "
                    "and the samples times their factors as an image [N, C, H_out * kH, W_out * kW], with a block of "
                    "[kH, kW] for each output position.",
  });
  library.add({
      .schema = "npu::npu_deformable_conv2dbk(Tensor input, Tensor grad_output, Tensor offset_out, Tensor weight, "
                "Tensor offset, int[2] kernel_size, int[] stride, int[] padding, int[4] dilation=[1, 1, 1, 1], int "
                "groups=1, int deformable_groups=1, bool modulated=True) -> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&deformable_conv2d_backward),
      .definition = "Gradients of npu_deformable_conv2d with respect to input, weight, offset and bias, from the "
                    "gradient grad_output of its first result. offset_out is its second result, and the other "
                    "arguments are those of the forward call. Results: the gradients of input, weight and offset, in "
                    "their shapes and types, and that of bias, [O] in the type of grad_output, which is returned even "
                    "if there was no bias.",
  });
}

}  // namespace npugraph::npu_ops
