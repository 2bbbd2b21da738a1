// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression of boxes.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"
#include "device/npu_ops/vision/polygons.h"

namespace npugraph::npu_ops {
namespace {

using c10::SymInt;

struct HostBox {
  float x0, y0, x1, y1;
  float area() const { return (x1 - x0) * (y1 - y0); }
};

float overlap(const HostBox& a, const HostBox& b) {
  const float width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  const float height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (width <= 0 || height <= 0) return 0;
  const float both = width * height;
  return both / (a.area() + b.area() - both);
}

// Rows have any two opposite corners.
std::vector<HostBox> boxes_of(const Tensor& tensor) {
  const Tensor plain = tensor.to(at::kFloat).contiguous();
  const auto rows = plain.accessor<float, 2>();
  std::vector<HostBox> out;
  for (int64_t i = 0; i < rows.size(0); ++i)
    out.push_back({std::min(rows[i][0], rows[i][2]), std::min(rows[i][1], rows[i][3]), std::max(rows[i][0], rows[i][2]),
                   std::max(rows[i][1], rows[i][3])});
  return out;
}

// Takes boxes in `order`, up to `most`, and skips each one that overlaps by more than `limit` with a box taken before.
template <typename AnyBox>
std::vector<int64_t> kept_boxes(const std::vector<AnyBox>& boxes, const Tensor& order, float limit, size_t most) {
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

// Positions of the scores above `least`, in descending order of scores. NaN is not above it.
Tensor falling_places(const Tensor& scores, float least) {
  const Tensor enough = scores.to(at::kFloat).gt(least);
  const Tensor order = falling_places(scores.masked_fill(enough.logical_not(), -INFINITY));
  return order.narrow(0, 0, enough.sum().item<int64_t>());
}

void check_scores(const char* op, const Tensor& boxes, const Tensor& scores) {
  check_dims(op, "scores", scores, 1, 1);
  TORCH_CHECK(scores.sym_size(0) == boxes.sym_size(0), op, ": scores has ", scores.sym_size(0), " elements, input has ",
              boxes.sym_size(0), " rows");
}

void check_nms(const Tensor& boxes, const Tensor& scores, const at::Scalar& most) {
  constexpr const char* kOp = "npu_nms_v4";
  check_floating(kOp, "input", boxes);
  check_dims(kOp, "input", boxes, 2, 2);
  TORCH_CHECK(boxes.sym_size(1) == 4, kOp, ": input has shape ", boxes.sym_sizes(), ", allowed are rows of 4");
  check_scores(kOp, boxes, scores);
  TORCH_CHECK(most.toLong() >= 0, kOp, ": max_output_size is ", most.toLong(), ", allowed are 0 and more");
}

Two nms_v4(const Tensor& boxes, const Tensor& scores, const at::Scalar& most, const Tensor& iou_threshold,
           const Tensor& score_threshold, bool) {
  check_nms(boxes, scores, most);
  const Tensor order = falling_places(scores, score_threshold.item<float>());
  const auto kept = kept_boxes(boxes_of(boxes), order, iou_threshold.item<float>(), most.toLong());
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

// One detection in an image.
struct Found {
  float score;
  int64_t place, kind;
};

struct BatchNms {
  double score_threshold, iou_threshold;
  int64_t most_of_kind, most;
};

void check_batch(const Tensor& boxes, const Tensor& scores, const BatchNms& how, bool change_frame, bool transposes) {
  constexpr const char* kOp = "npu_batch_nms";
  check_floating(kOp, "input", boxes);
  check_floating(kOp, "scores", scores);
  check_dims(kOp, "input", boxes, 4, 4);
  check_dims(kOp, "scores", scores, 3, 3);
  TORCH_CHECK(boxes.sym_size(0) == scores.sym_size(0) && boxes.sym_size(1) == scores.sym_size(1) &&
                  (boxes.sym_size(2) == 1 || boxes.sym_size(2) == scores.sym_size(2)) && boxes.sym_size(3) == 4,
              kOp, ": input has shape ", boxes.sym_sizes(), ", scores has ", scores.sym_sizes(),
              ", allowed are [B, N, 1 or C, 4] and [B, N, C]");
  TORCH_CHECK(how.most_of_kind >= 0 && how.most >= 0, kOp, ": max_size_per_class is ", how.most_of_kind,
              ", max_total_size is ", how.most, ", allowed are 0 and more");
  TORCH_CHECK(!change_frame, kOp, ": change_coordinate_frame is True, allowed is False: no window is given");
  TORCH_CHECK(!transposes, kOp, ": transpose_box is True, allowed is False");
}

// Detections in one image, with boxes [N, 1 or C, 4] and scores [N, C].
std::vector<Found> best_of_image(const Tensor& boxes, const Tensor& scores, const BatchNms& how) {
  std::vector<Found> out;
  for (int64_t kind = 0; kind < scores.size(1); ++kind) {
    const Tensor column = scores.select(1, kind).to(at::kFloat).contiguous();
    const std::vector<HostBox> of_kind = boxes_of(boxes.select(1, boxes.size(1) == 1 ? 0 : kind));
    const Tensor order = falling_places(column, how.score_threshold);
    for (const int64_t place : kept_boxes(of_kind, order, how.iou_threshold, how.most_of_kind))
      out.push_back({column.const_data_ptr<float>()[place], place, kind});
  }
  std::stable_sort(out.begin(), out.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
  if (out.size() > static_cast<size_t>(how.most)) out.resize(how.most);
  return out;
}

Four batch_nms(const Tensor& boxes, const Tensor& scores, double score_threshold, double iou_threshold,
               int64_t most_of_kind, int64_t most, bool change_frame, bool transposes) {
  const BatchNms how = {score_threshold, iou_threshold, most_of_kind, most};
  check_batch(boxes, scores, how, change_frame, transposes);
  const int64_t images = boxes.size(0);
  const Tensor kept_boxes = boxes.new_zeros({images, most, 4}), kept_scores = scores.new_zeros({images, most});
  const Tensor kinds = scores.new_zeros({images, most}), counts = boxes.new_zeros({images}, at::kInt);
  for (int64_t image = 0; image < images; ++image) {
    const std::vector<Found> found = best_of_image(boxes[image], scores[image], how);
    counts[image].fill_(static_cast<int64_t>(found.size()));
    for (size_t i = 0; i < found.size(); ++i) {
      const auto [score, place, kind] = found[i];
      kept_boxes[image][i].copy_(boxes[image][place][boxes.size(2) == 1 ? 0 : kind]);
      kept_scores[image][i].fill_(score);
      kinds[image][i].fill_(kind);
    }
  }
  return {kept_boxes, kept_scores, kinds, counts};
}

Four batch_nms_meta(const Tensor& boxes, const Tensor& scores, double score_threshold, double iou_threshold,
                    int64_t most_of_kind, int64_t most, bool change_frame, bool transposes) {
  check_batch(boxes, scores, {score_threshold, iou_threshold, most_of_kind, most}, change_frame, transposes);
  const SymInt images = boxes.sym_size(0);
  return {boxes.new_empty_symint({images, most, 4}), scores.new_empty_symint({images, most}),
          scores.new_empty_symint({images, most}), boxes.new_empty_symint({images}, at::kInt)};
}

void check_rotated(const Tensor& boxes, const Tensor& scores, int64_t mode) {
  constexpr const char* kOp = "npu_nms_rotated";
  check_floating(kOp, "input", boxes);
  check_dims(kOp, "input", boxes, 2, 2);
  TORCH_CHECK(boxes.sym_size(1) == 5, kOp, ": input has shape ", boxes.sym_sizes(), ", allowed are rows of 5");
  check_scores(kOp, boxes, scores);
  check_choice(kOp, "mode", mode, {0, 1});
}

Two nms_rotated(const Tensor& boxes, const Tensor& scores, double iou_threshold, double score_threshold, int64_t most,
                int64_t mode) {
  check_rotated(boxes, scores, mode);
  const std::vector<RotatedBox> all = rotated_boxes_of(boxes, mode == 1);
  const size_t limit = most < 0 ? all.size() : static_cast<size_t>(most);
  const auto kept = kept_boxes(all, falling_places(scores, score_threshold), iou_threshold, limit);
  const auto options = scores.options().dtype(at::kInt);
  return {at::tensor(kept, options), at::tensor({static_cast<int64_t>(kept.size())}, options)};
}

Two nms_rotated_meta(const Tensor& boxes, const Tensor& scores, double, double, int64_t, int64_t mode) {
  check_rotated(boxes, scores, mode);
  // The number of kept boxes depends on values, as does the size of the result of nonzero.
  return {scores.nonzero().select(1, 0).to(at::kInt), scores.new_empty_symint({1}, at::kInt)};
}

}  // namespace

void define_detection(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_nms_v4(Tensor input, Tensor scores, Scalar max_output_size, Tensor iou_threshold, Tensor "
                "scores_threshold, bool pad_to_max_output_size=False) -> (Tensor, Tensor)",
      .kernel = whole(&nms_v4, &nms_v4_meta),
      .definition = "Non-maximum suppression (tf.image.non_max_suppression): takes boxes in falling order of their "
                    "scores and keeps a box if its score is above scores_threshold and its IoU with each box kept "
                    "before is at most iou_threshold, until there are max_output_size. input is [N, 4], any two "
                    "opposite corners as x0, y0, x1, y1; scores is [N], and the thresholds are tensors of one element. "
                    "Results in int32: the indices of the kept boxes, [max_output_size] with zeros after the last, and "
                    "their number, a scalar. pad_to_max_output_size is ignored: the indices are always padded.",
  });
  library.add({
      .schema = "npu::npu_nms_with_mask(Tensor input, Scalar iou_threshold) -> (Tensor, Tensor, Tensor)",
      .kernel = whole(&nms_with_mask, &nms_with_mask_meta),
      .definition = "Non-maximum suppression of all boxes: sorts the rows of input by falling score and keeps a row if "
                    "its IoU with each row kept before is at most iou_threshold. input is [N, 5], any two opposite "
                    "corners as x0, y0, x1, y1, and the score. Results: the sorted rows [N, 5] in the type of input, "
                    "their indices in input [N] in int32, and [N] in uint8 with 1 for the rows that are kept.",
  });
  library.add({
      .schema = "npu::npu_batch_nms(Tensor input, Tensor scores, float score_threshold, float iou_threshold, int "
                "max_size_per_class, int max_total_size, bool change_coordinate_frame=False, bool transpose_box=False) "
                "-> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = whole(&batch_nms, &batch_nms_meta),
      .definition = "Non-maximum suppression by classes, for a batch of images "
                    "(tf.image.combined_non_max_suppression). input is [B, N, C, 4], or [B, N, 1, 4] with the same "
                    "boxes for all C classes, any two opposite corners; scores is [B, N, C]. Of each class, boxes are "
                    "kept as by npu_nms_v4 with score_threshold and iou_threshold, at most max_size_per_class; the "
                    "result for an image is the max_total_size best of all classes by falling score. Results: the "
                    "boxes [B, max_total_size, 4], their scores and their classes [B, max_total_size] in the type of "
                    "scores, with zeros after the last, and their number [B] in int32. change_coordinate_frame and "
                    "transpose_box must be False.",
  });
  library.add({
      .schema = "npu::npu_nms_rotated(Tensor input, Tensor scores, float iou_threshold, float scores_threshold=0, int "
                "max_output_size=-1, int mode=0) -> (Tensor, Tensor)",
      .kernel = whole(&nms_rotated, &nms_rotated_meta),
      .definition = "Non-maximum suppression of rotated boxes: keeps boxes as npu_nms_v4 does, by the IoU of rotated "
                    "rectangles. input is [N, 5]: the centre x, y, then w, h and the angle in degrees, or with mode 1 "
                    "x0, y0, x1, y1 before the rotation and angle. At most max_output_size boxes are kept, or all if "
                    "it is -1. Results in int32: the indices of the kept boxes, as many as there are, and their number "
                    "[1]. Ascend does not publish the unit of the angle and the shape of the second result.",
  });
}

}  // namespace npugraph::npu_ops
