// SPDX-License-Identifier: Apache-2.0
// Assignment of anchors to boxes, and the values that anchors are to learn.
#include <algorithm>

#include "device/npu_ops/families.h"
#include "device/npu_ops/parts/parts.h"
#include "device/npu_ops/vision/boxes.h"

namespace npugraph::npu_ops {
namespace {

// Encoded positions are at least this far from 0 and from 1, and encoded ratios of sizes from 0.
constexpr double kLeast = 1e-6;

struct Assignment {
  const Tensor &assigned, &overlaps, &responsible, &most, &best_box, &most_of_box, &best_of_box;
};

void check_assignment(const Assignment& given) {
  constexpr const char* kOp = "npu_grid_assign_positive";
  check_floating(kOp, "input", given.assigned);
  check_dims(kOp, "input", given.assigned, 1, 1);
  check_dims(kOp, "overlaps", given.overlaps, 2, 2);
  TORCH_CHECK(given.overlaps.sym_size(1) == given.assigned.sym_size(0), kOp, ": overlaps has shape ",
              given.overlaps.sym_sizes(), ", input has ", given.assigned.sym_size(0), " elements, one for each column");
  check_same_shape(kOp, "box_responsible_flags", given.responsible, "input", given.assigned);
  check_same_shape(kOp, "max_overlaps", given.most, "input", given.assigned);
  check_same_shape(kOp, "argmax_overlaps", given.best_box, "input", given.assigned);
  check_dims(kOp, "gt_max_overlaps", given.most_of_box, 1, 1);
  TORCH_CHECK(given.most_of_box.sym_size(0) == given.overlaps.sym_size(0), kOp, ": gt_max_overlaps has ",
              given.most_of_box.sym_size(0), " elements, overlaps has ", given.overlaps.sym_size(0), " rows");
  check_same_shape(kOp, "gt_argmax_overlaps", given.best_of_box, "gt_max_overlaps", given.most_of_box);
}

// For each anchor the last box, counted from 1, whose best anchor it is; 0 for none.
Tensor best_of(const Assignment& given, const Tensor& responsible, int64_t boxes, double least, bool all) {
  const Tensor number = count_up(given.overlaps, given.overlaps.sym_size(0)).unsqueeze(1) + 1;
  const Tensor is_best = all ? given.overlaps == given.most_of_box.unsqueeze(1)
                             : count_up(given.overlaps, given.overlaps.sym_size(1)) == given.best_of_box.unsqueeze(1);
  const Tensor counts = (given.most_of_box > least).unsqueeze(1).logical_and(number <= boxes);
  const Tensor numbers = number * is_best.logical_and(counts).logical_and(responsible);
  return at::cat({numbers.new_zeros_symint({1, numbers.sym_size(1)}), numbers}).amax(0);
}

Tensor grid_assign_positive(const Tensor& assigned, const Tensor& overlaps, const Tensor& responsible_flags,
                            const Tensor& most, const Tensor& best_box, const Tensor& most_of_box,
                            const Tensor& best_of_box, int64_t boxes, double enough, double least, bool all) {
  const Assignment given = {assigned, overlaps, responsible_flags, most, best_box, most_of_box, best_of_box};
  check_assignment(given);
  const Tensor responsible = responsible_flags != 0;
  const Tensor positive = (most > enough).logical_and(responsible);
  const Tensor by_anchor = at::where(positive, (best_box + 1).to(assigned.scalar_type()), assigned);
  const Tensor by_box = best_of(given, responsible, boxes, least, all);
  return at::where(by_box > 0, by_box.to(assigned.scalar_type()), by_anchor);
}

// Chooses `count` of the candidates at random. `count` is a number or a tensor of one number.
template <typename Count>
Tensor drawn_candidates(const Tensor& is_candidate, const Count& count) {
  const Tensor key = uniform(is_candidate.sym_sizes(), is_candidate.options().dtype(at::kDouble)) + is_candidate;
  const Tensor rank = key.argsort(0, /*descending=*/true).argsort();
  return is_candidate.logical_and(rank < count);
}

Tensor sub_sample(const Tensor& labels, int64_t count, double positive_fraction) {
  constexpr const char* kOp = "npu_sub_sample";
  check_type(kOp, "input", labels, {at::kInt, at::kLong});
  check_dims(kOp, "input", labels, 1, 1);
  TORCH_CHECK(count >= 0, kOp, ": per_images is ", count, ", allowed are 0 and more");
  TORCH_CHECK(positive_fraction >= 0 && positive_fraction <= 1, kOp, ": positive_fraction is ", positive_fraction,
              ", allowed are 0 to 1");
  const Tensor is_background = labels == 0;
  const Tensor is_positive = is_background.logical_or(labels == -1).logical_not();
  const Tensor positive = drawn_candidates(is_positive, static_cast<int64_t>(count * positive_fraction));
  const Tensor negative = drawn_candidates(is_background, count - positive.sum());
  return labels.masked_fill(positive.logical_or(negative).logical_not(), -1);
}

Tensor yolo_boxes_encode(const Tensor& anchors, const Tensor& boxes, const Tensor& stride, bool) {
  constexpr const char* kOp = "npu_yolo_boxes_encode";
  check_boxes(kOp, "input", anchors, 1);
  check_same_shape(kOp, "gt_bboxes", boxes, "input", anchors);
  TORCH_CHECK(stride.dim() == 1 && stride.sym_size(0) == anchors.sym_size(0), kOp, ": stride has shape ",
              stride.sym_sizes(), ", allowed is one element for each of ", anchors.sym_size(0), " boxes");
  const Box a = box_of(anchors, 1, false), b = box_of(boxes, 1, false);
  const auto share = [&](const Tensor& twice) { return (twice / 2 / stride + 0.5).clamp(kLeast, 1 - kLeast); };
  return at::stack({share(b.x0 + b.x1 - a.x0 - a.x1), share(b.y0 + b.y1 - a.y0 - a.y1),
                    (b.width() / a.width()).clamp_min(kLeast).log(), (b.height() / a.height()).clamp_min(kLeast).log()},
                   1)
      .to(anchors.scalar_type());
}

}  // namespace

void define_assignments(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_grid_assign_positive(Tensor input, Tensor overlaps, Tensor box_responsible_flags, Tensor "
                "max_overlaps, Tensor argmax_overlaps, Tensor gt_max_overlaps, Tensor gt_argmax_overlaps, int num_gts, "
                "float pos_iou_thr, float min_pos_iou, bool gt_max_assign_all) -> Tensor",
      .kernel = parts(&grid_assign_positive),
      .definition = "Assigns boxes to anchors as GridAssigner of MMDetection does (Chen et al., 2019). input [A] holds "
                    "the assignment of each anchor so far, and overlaps [G, A] the IoU of each box with each anchor. "
                    "Only anchors with box_responsible_flags [A] are assigned. First, anchors whose max_overlaps [A] "
                    "is above pos_iou_thr get the box argmax_overlaps [A]. Then each of the first num_gts boxes whose "
                    "gt_max_overlaps [G] is above min_pos_iou takes its best anchor gt_argmax_overlaps [G], or, with "
                    "gt_max_assign_all, all anchors with an overlap of gt_max_overlaps; the last box wins. The result "
                    "is input with the number of the box, from 1, for each of these anchors.",
  });
  library.add({
      .schema = "npu::npu_sub_sample(Tensor input, int per_images, float positive_fraction) -> Tensor",
      .kernel = parts(&sub_sample),
      .definition = "Draws the anchors to train on (Faster R-CNN: Ren et al., 2015): keeps up to per_images random "
                    "labels of input [A], int32 or int64, and sets all others to -1. At most int(per_images * "
                    "positive_fraction) of the kept labels are positive (neither 0 nor -1), and the others are "
                    "background (0). The result has the type of input.",
  });
  library.add({
      .schema = "npu::npu_yolo_boxes_encode(Tensor input, Tensor gt_bboxes, Tensor stride, bool "
                "performance_mode=False) -> Tensor",
      .kernel = parts(&yolo_boxes_encode),
      .definition = "Encodes gt_bboxes relative to the anchors input (YOLOv3: Redmon and Farhadi, 2018). Both are [N, "
                    "4] as x0, y0, x1, y1, and stride is [N]. The result is [N, 4] in the type of input: the distances "
                    "of the centres in x and y, divided by stride, plus 0.5, clamped to [1e-6, 1 - 1e-6], and the "
                    "logarithms of the ratios of widths and of heights, which are at least 1e-6. performance_mode is "
                    "ignored.",
  });
}

}  // namespace npugraph::npu_ops
