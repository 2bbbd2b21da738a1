// SPDX-License-Identifier: Apache-2.0
// Pooling of regions of feature maps.
#include <tuple>
#include <vector>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

using c10::SymInt;

struct RoiAlign {
  const char* op;
  double scale;
  int64_t height, width, samples, end_mode;
};

void check_rois(const RoiAlign& how, const Tensor& rois) {
  check_dims(how.op, "rois", rois, 2, 2);
  TORCH_CHECK(rois.sym_size(1) == 5, how.op, ": rois has shape ", rois.sym_sizes(), ", allowed are rows of 5");
  TORCH_CHECK(how.samples >= 1, how.op, ": sample_num is ", how.samples, ", allowed are 1 and more");
  check_choice(how.op, "roi_end_mode", how.end_mode, {0, 1, 2});
}

// For one axis of all regions: the two elements that each sample lies between, [K, bins * samples], and the weights of
// both, which are 0 for samples outside.
struct Samples {
  Tensor low, high, weight_low, weight_high;
};

Samples samples_along(const RoiAlign& how, const Tensor& first, const Tensor& last, int64_t bins, const SymInt& size) {
  const double shift = how.end_mode == 2 ? 0.5 : 0;
  const Tensor begin = wide(first) * how.scale - shift, end = (wide(last) + (how.end_mode == 1)) * how.scale - shift;
  const Tensor size_of = end - begin;
  const Tensor bin = (how.end_mode == 2 ? size_of : size_of.clamp_min(how.end_mode == 1 ? 0 : 1)) / bins;
  const Tensor step = (at::arange(bins * how.samples, begin.options()) + 0.5) / how.samples;
  const Tensor place = begin.unsqueeze(1) + step.unsqueeze(0) * bin.unsqueeze(1);
  const Tensor inside = (place >= -1).logical_and(place <= at::Scalar(size));
  const SymInt most = size - 1;
  const Tensor within = at::minimum(place.clamp_min(0), at::scalar_tensor(at::Scalar(most), place.options()));
  const Tensor low = within.floor();
  const Tensor weight = within - low;
  const Tensor low_place = low.to(at::kLong);
  const Tensor high_place = at::minimum(low_place + 1, at::scalar_tensor(at::Scalar(most), low_place.options()));
  return {low_place, high_place, (1 - weight) * inside, weight * inside};
}

// For one corner of each sample, the element of maps [N * H * W], and its weight: [K * P * Q].
struct RoiCorner {
  Tensor places, weights;
};

std::vector<RoiCorner> corners(const RoiAlign& how, const Tensor& rois, const SymInt& height, const SymInt& width) {
  const Samples y = samples_along(how, rois.select(1, 2), rois.select(1, 4), how.height, height);
  const Samples x = samples_along(how, rois.select(1, 1), rois.select(1, 3), how.width, width);
  const Tensor image = rois.select(1, 0).to(at::kLong).unsqueeze(1).unsqueeze(1);
  std::vector<RoiCorner> out;
  for (const auto& [row, of_row] : {std::pair(y.low, y.weight_low), std::pair(y.high, y.weight_high)})
    for (const auto& [column, of_column] : {std::pair(x.low, x.weight_low), std::pair(x.high, x.weight_high)}) {
      const Tensor line = image * at::Scalar(height) + row.unsqueeze(2);
      out.push_back({(line * at::Scalar(width) + column.unsqueeze(1)).reshape(-1),
                     (of_row.unsqueeze(2) * of_column.unsqueeze(1)).reshape(-1)});
    }
  return out;
}

Tensor roi_align(const Tensor& input, const Tensor& rois, double scale, int64_t height, int64_t width, int64_t samples,
                 int64_t end_mode) {
  const RoiAlign how = {"npu_roi_align", scale, height, width, samples, end_mode};
  check_floating(how.op, "input", input);
  check_dims(how.op, "input", input, 4, 4);
  check_rois(how, rois);
  const SymInt channels = input.sym_size(1);
  const Tensor maps = wide(input).transpose(0, 1).reshape_symint({channels, -1});
  Tensor sum;
  for (const RoiCorner& corner : corners(how, rois, input.sym_size(2), input.sym_size(3))) {
    const Tensor part = maps.index_select(1, corner.places) * corner.weights;
    sum = sum.defined() ? sum + part : part;
  }
  const Tensor all = sum.view_symint({channels, rois.sym_size(0), height, samples, width, samples});
  return all.mean({3, 5}).transpose(0, 1).contiguous().to(input.scalar_type());
}

Tensor roi_align_backward(const Tensor& grad, const Tensor& rois, at::IntArrayRef shape, int64_t width, int64_t height,
                          double scale, int64_t samples, std::optional<int64_t> end_mode) {
  const RoiAlign how = {"npu_roi_alignbk", scale, height, width, samples, end_mode.value_or(1)};
  check_dims(how.op, "input", grad, 4, 4);
  check_rois(how, rois);
  TORCH_CHECK(shape.size() == 4, how.op, ": xdiff_shape is ", shape, ", allowed are four sizes");
  const Tensor share = (wide(grad) / (samples * samples)).transpose(0, 1).unsqueeze(3).unsqueeze(5);
  const Tensor spread = share.expand_symint({shape[1], rois.sym_size(0), height, samples, width, samples});
  const Tensor each = spread.reshape({shape[1], -1});
  Tensor out = each.new_zeros({shape[1], shape[0] * shape[2] * shape[3]});
  for (const RoiCorner& corner : corners(how, rois, shape[2], shape[3]))
    out = out.index_add(1, corner.places, each * corner.weights);
  return out.view({shape[1], shape[0], shape[2], shape[3]}).transpose(0, 1).contiguous().to(grad.scalar_type());
}

// Position-sensitive pooling (Dai et al., R-FCN, 2016).
struct Positions {
  const char* op;
  double scale;
  int64_t bins, maps;  // bins in each direction; maps of each bin
};

void check_positions(const Positions& how, const Tensor& rois) {
  check_dims(how.op, "rois", rois, 3, 3);
  TORCH_CHECK(rois.sym_size(1) == 5, how.op, ": rois has shape ", rois.sym_sizes(), ", allowed is 5 in dimension 1");
  TORCH_CHECK(how.bins >= 1 && how.maps >= 1, how.op, ": group_size is ", how.bins, ", output_dim is ", how.maps,
              ", allowed are 1 and more");
}

// For one axis of all regions, the first element of each bin and the one after its last, [R, bins], within `size`.
struct BinEdges {
  Tensor begin, end;
};

BinEdges bins_along(const Positions& how, const Tensor& first, const Tensor& last, const SymInt& size) {
  const Tensor begin = (first + 0.5).floor() * how.scale, end = ((last + 0.5).floor() + 1) * how.scale;
  const Tensor bin = (end - begin).clamp_min(0.1) / how.bins;
  const auto edge = [&](int64_t shift) {
    const Tensor step = at::arange(shift, how.bins + shift, begin.options());
    return begin.unsqueeze(1) + step * bin.unsqueeze(1);
  };
  const auto within = [&](const Tensor& place) {
    return at::minimum(place.to(at::kLong).clamp_min(0),
                       at::scalar_tensor(at::Scalar(size), place.options().dtype(at::kLong)));
  };
  return {within(edge(0).floor()), within(edge(1).ceil())};
}

// For one corner of all bins, its position in the flattened tables of sums [N, C, H + 1, W + 1], and the factor of this
// sum in the result: [R, maps, bins, bins].
struct TableCorner {
  Tensor places, weights;
};

std::vector<TableCorner> table_corners(const Positions& how, const Tensor& rois, const SymInt& height,
                                       const SymInt& width) {
  const auto columns = rois.to(at::kDouble).transpose(1, 2).reshape({-1, 5}).unbind(1);
  const BinEdges x = bins_along(how, columns[1], columns[3], width),
                 y = bins_along(how, columns[2], columns[4], height);
  const Tensor area = (y.end - y.begin).unsqueeze(2) * (x.end - x.begin).unsqueeze(1);
  const Tensor share = (area > 0) / area.clamp_min(1).to(at::kDouble);
  const int64_t channels = how.bins * how.bins * how.maps;
  const Tensor image = columns[0].to(at::kLong).view({-1, 1, 1, 1}) * channels;
  const Tensor channel = at::arange(channels, image.options()).view({how.maps, how.bins, how.bins});
  std::vector<TableCorner> out;
  for (const auto& [row, of_row] : {std::pair(y.begin, -1), std::pair(y.end, 1)})
    for (const auto& [column, of_column] : {std::pair(x.begin, -1), std::pair(x.end, 1)}) {
      const Tensor line = (image + channel) * at::Scalar(height + 1) + row.unsqueeze(2).unsqueeze(1);
      out.push_back({line * at::Scalar(width + 1) + column.unsqueeze(1).unsqueeze(1),
                     (share * (of_row * of_column)).unsqueeze(1)});
    }
  return out;
}

Tensor ps_roi_pooling(const Tensor& input, const Tensor& rois, double scale, int64_t bins, int64_t maps) {
  const Positions how = {"npu_ps_roi_pooling", scale, bins, maps};
  check_floating(how.op, "input", input);
  check_dims(how.op, "input", input, 4, 4);
  check_positions(how, rois);
  TORCH_CHECK(input.sym_size(1) == bins * bins * maps, how.op, ": input has ", input.sym_size(1),
              " channels, allowed are group_size^2 * output_dim, ", bins * bins * maps);
  // Sums of rectangles by differences of sums from the first corner on (Crow, 1984).
  const Tensor sums = input.to(at::kDouble).cumsum(2).cumsum(3);
  const Tensor table = at::constant_pad_nd(sums, {1, 0, 1, 0}).reshape(-1);
  Tensor out;
  for (const TableCorner& corner : table_corners(how, rois, input.sym_size(2), input.sym_size(3))) {
    const Tensor part = table.take(corner.places) * corner.weights;
    out = out.defined() ? out + part : part;
  }
  return out.to(input.scalar_type());
}

Tensor ps_roi_pooling_backward(const Tensor& grad, const Tensor& rois, double scale, int64_t bins, int64_t maps,
                               at::SymIntArrayRef size) {
  const Positions how = {"npu_ps_roi_pooling_backward", scale, bins, maps};
  check_dims(how.op, "output_grad", grad, 4, 4);
  check_positions(how, rois);
  TORCH_CHECK(size.size() == 2, how.op, ": input_size has ", size.size(), " elements, allowed are 2");
  const SymInt images = rois.sym_size(0), height = size[0], width = size[1], channels = bins * bins * maps;
  const Tensor given = grad.to(at::kDouble);
  Tensor table = given.new_zeros_symint({images * channels * (height + 1) * (width + 1)});
  for (const TableCorner& corner : table_corners(how, rois, height, width))
    table = table.index_add(0, corner.places.reshape(-1), (given * corner.weights).reshape(-1));
  // The gradient of cumulative sums is the sum from each element to the last.
  const Tensor sums =
      table.view_symint({images, channels, height + 1, width + 1}).flip({2, 3}).cumsum(2).cumsum(3).flip({2, 3});
  return sums.slice(2, 1).slice(3, 1).contiguous().to(grad.scalar_type());
}

}  // namespace

void define_region_pooling(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int "
                "pooled_width, int sample_num, int roi_end_mode) -> Tensor",
      .kernel = parts(&roi_align),
      .definition = "RoIAlign (He et al., 2017): divides each region into pooled_height * pooled_width bins, each the "
                    "mean of sample_num^2 bilinear samples; sample_num must be 1 or more. A sample at y < -1, y > H, x "
                    "< -1 or x > W counts as 0; others outside of the map take the elements at its edge. input is [N, "
                    "C, H, W]; rois is [K, 5]: the index of the image, and x0, y0, x1, y1, which are multiplied by "
                    "spatial_scale. With roi_end_mode 0, regions are at least one pixel of the map wide and high. With "
                    "1, x1 and y1 are increased by 1 before they are scaled, and regions are at least 0 wide and high. "
                    "With 2, regions are shifted by -0.5 pixels of the map, and their size has no limit. The result is "
                    "[K, C, pooled_height, pooled_width] in the type of input.",
  });
  library.add({
      .schema = "npu::npu_roi_alignbk(Tensor input, Tensor rois, int[] xdiff_shape, int pooled_width, int "
                "pooled_height, float spatial_scale, int sample_num, int? roi_end_mode=None) -> Tensor",
      .kernel = parts(&roi_align_backward),
      .definition = "Gradient of npu_roi_align with respect to its input, of shape xdiff_shape, [N, C, H, W]. Here, "
                    "input is the gradient of the result, and its type is that of the gradient returned. roi_end_mode "
                    "None is 1; the other arguments are those of the forward call.",
  });
  library.add({
      .schema = "npu::npu_ps_roi_pooling(Tensor input, Tensor rois, float spatial_scale, int group_size, int "
                "output_dim) -> Tensor",
      .kernel = parts(&ps_roi_pooling),
      .definition = "Position-sensitive pooling of regions (R-FCN: Dai et al., 2016): divides each region into "
                    "group_size^2 bins, each the mean of the elements of one channel in it. input is [N, output_dim * "
                    "group_size^2, H, W]; rois is [B, 5, R]: the index of the image, and x0, y0, x1, y1, which are "
                    "rounded and multiplied by spatial_scale. The result is [B * R, output_dim, group_size, "
                    "group_size] in the type of input. Bin (i, j) of channel d is taken from channel (d * group_size + "
                    "i) * group_size + j of input; empty bins are 0.",
  });
  library.add({
      .schema = "npu::npu_ps_roi_pooling_backward(Tensor output_grad, Tensor rois, float spatial_scale, int "
                "group_size, int output_dim, SymInt[] input_size) -> Tensor",
      .kernel = parts(&ps_roi_pooling_backward),
      .definition = "Gradient of npu_ps_roi_pooling with respect to input, from the gradient output_grad of its "
                    "result. input_size is the height and width of input, which has as many images as rois has rows in "
                    "its first dimension. The result is in the type of output_grad; the other arguments are those of "
                    "the forward call.",
  });
}

}  // namespace npugraph::npu_ops
