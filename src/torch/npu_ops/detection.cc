// SPDX-License-Identifier: Apache-2.0
// Suppression of boxes by others, and features of regions.
#include <algorithm>
#include <tuple>
#include <vector>

#include "torch/npu_ops/checks.h"
#include "torch/npu_ops/families.h"
#include "torch/npu_ops/parts.h"

namespace npugraph::npu_ops {
namespace {

using c10::SymInt;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

struct Box {
  float x0, y0, x1, y1;
};

float area(const Box& box) { return (box.x1 - box.x0) * (box.y1 - box.y0); }

float overlap(const Box& a, const Box& b) {
  const float width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  const float height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (width <= 0 || height <= 0) return 0;
  const float both = width * height;
  return both / (area(a) + area(b) - both);
}

// Any two opposite corners.
std::vector<Box> boxes_of(const Tensor& tensor) {
  const Tensor plain = tensor.to(at::kFloat).contiguous();
  const auto rows = plain.accessor<float, 2>();
  std::vector<Box> out;
  for (int64_t i = 0; i < rows.size(0); ++i)
    out.push_back({std::min(rows[i][0], rows[i][2]), std::min(rows[i][1], rows[i][3]), std::max(rows[i][0], rows[i][2]),
                   std::max(rows[i][1], rows[i][3])});
  return out;
}

// Of `order`, those that overlap with none before them that was kept by more than `limit`.
std::vector<int64_t> kept_boxes(const std::vector<Box>& boxes, const Tensor& order, float limit, size_t most) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < order.numel() && out.size() < most; ++i) {
    const int64_t place = order.const_data_ptr<int64_t>()[i];
    const bool drops =
        std::any_of(out.begin(), out.end(), [&](int64_t other) { return overlap(boxes[other], boxes[place]) > limit; });
    if (!drops) out.push_back(place);
  }
  return out;
}

Tensor falling_places(const Tensor& scores) {
  return std::get<1>(at::sort(scores, /*stable=*/true, 0, /*descending=*/true)).contiguous();
}

void check_nms(const Tensor& boxes, const Tensor& scores, const at::Scalar& most) {
  constexpr const char* kOp = "npu_nms_v4";
  check_floating(kOp, "input", boxes);
  check_dims(kOp, "input", boxes, 2, 2);
  TORCH_CHECK(boxes.sym_size(1) == 4, kOp, ": input has shape ", boxes.sym_sizes(), ", allowed are rows of 4");
  check_dims(kOp, "scores", scores, 1, 1);
  TORCH_CHECK(scores.sym_size(0) == boxes.sym_size(0), kOp, ": scores has ", scores.sym_size(0),
              " elements, input has ", boxes.sym_size(0), " rows");
  TORCH_CHECK(most.toLong() >= 0, kOp, ": max_output_size is ", most.toLong(), ", allowed are 0 and more");
}

Two nms_v4(const Tensor& boxes, const Tensor& scores, const at::Scalar& most, const Tensor& iou_threshold,
           const Tensor& score_threshold, bool) {
  check_nms(boxes, scores, most);
  const float least = score_threshold.item<float>();
  const Tensor order = falling_places(scores);
  const int64_t enough = scores.to(at::kFloat).gt(least).sum().item<int64_t>();
  const auto kept = kept_boxes(boxes_of(boxes), order.narrow(0, 0, enough), iou_threshold.item<float>(), most.toLong());
  const Tensor out = at::zeros({most.toLong()}, scores.options().dtype(at::kInt));
  std::copy(kept.begin(), kept.end(), out.data_ptr<int32_t>());
  return {out, at::scalar_tensor(static_cast<int64_t>(kept.size()), out.options())};
}

Two nms_v4_meta(const Tensor& boxes, const Tensor& scores, const at::Scalar& most, const Tensor&, const Tensor&, bool) {
  check_nms(boxes, scores, most);
  return {scores.new_empty({most.toLong()}, at::kInt), scores.new_empty({}, at::kInt)};
}

void check_scored(const Tensor& input) {
  constexpr const char* kOp = "npu_nms_with_mask";
  check_floating(kOp, "input", input);
  check_dims(kOp, "input", input, 2, 2);
  TORCH_CHECK(input.sym_size(1) == 5, kOp, ": input has shape ", input.sym_sizes(), ", allowed are rows of 5");
}

Three nms_with_mask(const Tensor& input, const at::Scalar& iou_threshold) {
  check_scored(input);
  const Tensor order = falling_places(input.select(1, 4));
  const Tensor sorted = input.index_select(0, order);
  const Tensor places = at::arange(order.numel(), order.options());
  const Tensor mask = at::zeros({order.numel()}, input.options().dtype(at::kByte));
  for (const int64_t place : kept_boxes(boxes_of(sorted), places, iou_threshold.toFloat(), order.numel()))
    mask.data_ptr<uint8_t>()[place] = 1;
  return {sorted, order.to(at::kInt), mask};
}

Three nms_with_mask_meta(const Tensor& input, const at::Scalar&) {
  check_scored(input);
  return {at::empty_symint(input.sym_sizes(), input.options()), input.new_empty_symint({input.sym_size(0)}, at::kInt),
          input.new_empty_symint({input.sym_size(0)}, at::kByte)};
}

struct RoiAlign {
  const char* op;
  double scale;
  int64_t height, width, samples, end_mode;
};

void check_rois(const RoiAlign& how, const Tensor& rois) {
  check_dims(how.op, "rois", rois, 2, 2);
  TORCH_CHECK(rois.sym_size(1) == 5, how.op, ": rois has shape ", rois.sym_sizes(), ", allowed are rows of 5");
  TORCH_CHECK(how.samples >= 1, how.op, ": sample_num is ", how.samples, ", allowed are 1 and more");
  check_choice(how.op, "roi_end_mode", how.end_mode, {0, 1});
}

// For one axis of all regions: the two places that a sample lies between, [K, bins * samples], and the weight of the second; 0 for
// both where it lies outside.
struct Samples {
  Tensor low, high, weight_low, weight_high;
};

Samples samples_along(const RoiAlign& how, const Tensor& first, const Tensor& last, int64_t bins, const SymInt& size) {
  const Tensor begin = wide(first) * how.scale, end = (wide(last) + how.end_mode) * how.scale;
  const Tensor bin = (end - begin).clamp_min(how.end_mode == 1 ? 0 : 1) / bins;
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

// The elements of maps [N * H * W] that a corner of each sample has, [K * P * Q], and their weights.
struct Corner {
  Tensor places, weights;
};

std::vector<Corner> corners(const RoiAlign& how, const Tensor& rois, const SymInt& height, const SymInt& width) {
  const Samples y = samples_along(how, rois.select(1, 2), rois.select(1, 4), how.height, height);
  const Samples x = samples_along(how, rois.select(1, 1), rois.select(1, 3), how.width, width);
  const Tensor image = rois.select(1, 0).to(at::kLong).unsqueeze(1).unsqueeze(1);
  std::vector<Corner> out;
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
  for (const Corner& corner : corners(how, rois, input.sym_size(2), input.sym_size(3))) {
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
  for (const Corner& corner : corners(how, rois, shape[2], shape[3]))
    out = out.index_add(1, corner.places, each * corner.weights);
  return out.view({shape[1], shape[0], shape[2], shape[3]}).transpose(0, 1).contiguous().to(grad.scalar_type());
}

}  // namespace

void define_detection(Definitions& npu) {
  npu.computed(
      "npu_nms_v4", &nms_v4, &nms_v4_meta,
      "Places of boxes (any two opposite corners) with a score above scores_threshold, in falling order, that overlap "
      "with none "
      "before them by more than iou_threshold; max_output_size of them, zeros after the last; and how many there are "
      "(tf.image.non_max_suppression)");
  npu.computed("npu_nms_with_mask", &nms_with_mask, &nms_with_mask_meta,
               "Rows of corners and score in falling order of the score, their places, and 1 for those that overlap "
               "with none before "
               "them that has a 1 by more than iou_threshold, in uint8");
  npu.composed("npu_roi_align", &roi_align,
               "Means of sample_num^2 bilinear samples in each of pooled_height * pooled_width bins of regions (image, "
               "x0, y0, x1, y1), "
               "whose ends are one more with roi_end_mode 1 and whose sizes are at least 1 with 0 (He et al., 2017)");
  npu.composed("npu_roi_alignbk", &roi_align_backward,
               "The gradient of input of npu_roi_align; roi_end_mode None is 1");
}

}  // namespace npugraph::npu_ops
