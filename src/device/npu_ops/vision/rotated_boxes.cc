// SPDX-License-Identifier: Apache-2.0
// Boxes that are rotated by an angle in degrees.
#include <vector>

#include <ATen/Parallel.h>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"
#include "device/npu_ops/vision/polygons.h"

namespace npugraph::npu_ops {
namespace {

using c10::SymInt;

// Parts of boxes that are encoded. Boxes are [B, 5, N]: corners x0, y0, x1, y1 before the box is
// rotated, and the angle.
struct Parts {
  Tensor x, y, width, height, tangent;
};

Parts parts_of(const Tensor& boxes) {
  const auto all = wide(boxes).unbind(1);
  return {(all[0] + all[2]) / 2, (all[1] + all[3]) / 2, all[2] - all[0], all[3] - all[1], at::tan(at::deg2rad(all[4]))};
}

void check_coded(const char* op, const Tensor& anchors, const char* name, const Tensor& other, const Tensor& weight) {
  check_floating(op, "input", anchors);
  check_dims(op, "input", anchors, 3, 3);
  TORCH_CHECK(anchors.sym_size(1) == 5, op, ": input has shape ", anchors.sym_sizes(), ", allowed is 5 in dimension 1");
  check_same_shape(op, name, other, "input", anchors);
  TORCH_CHECK(weight.dim() == 1 && weight.sym_size(0) == 5, op, ": weight has shape ", weight.sym_sizes(),
              ", allowed is [5]");
}

Tensor rotated_box_encode(const Tensor& anchors, const Tensor& boxes, const Tensor& weight) {
  check_coded("npu_rotated_box_encode", anchors, "gt_bboxes", boxes, weight);
  const Parts a = parts_of(anchors), b = parts_of(boxes);
  const Tensor code = at::stack({(b.x - a.x) / a.width, (b.y - a.y) / a.height, (b.width / a.width).log(),
                                 (b.height / a.height).log(), b.tangent - a.tangent},
                                1);
  return (code * wide(weight).unsqueeze(1)).to(anchors.scalar_type());
}

Tensor rotated_box_decode(const Tensor& anchors, const Tensor& deltas, const Tensor& weight) {
  check_coded("npu_rotated_box_decode", anchors, "deltas", deltas, weight);
  const Parts a = parts_of(anchors);
  const auto code = (wide(deltas) / wide(weight).unsqueeze(1)).unbind(1);
  const Tensor x = a.x + code[0] * a.width, y = a.y + code[1] * a.height;
  const Tensor width = a.width * code[2].exp() / 2, height = a.height * code[3].exp() / 2;
  const Tensor angle = at::rad2deg(at::atan(a.tangent + code[4]));
  return at::stack({x - width, y - height, x + width, y + height, angle}, 1).to(anchors.scalar_type());
}

void check_compared(const char* op, const Tensor& boxes, const Tensor& query_boxes) {
  for (const auto& [name, tensor] : {std::pair("input", &boxes), std::pair("query_boxes", &query_boxes)}) {
    check_floating(op, name, *tensor);
    check_dims(op, name, *tensor, 3, 3);
    TORCH_CHECK(tensor->sym_size(2) == 5, op, ": ", name, " has shape ", tensor->sym_sizes(),
                ", allowed is 5 in dimension 2");
  }
  TORCH_CHECK(boxes.sym_size(0) == query_boxes.sym_size(0), op, ": input has ", boxes.sym_size(0),
              " batches, query_boxes has ", query_boxes.sym_size(0));
}

// `measure` of all pairs, [B, N, K].
template <typename Measure>
Tensor of_all_pairs(const Tensor& boxes, const Tensor& query_boxes, bool trans, const Measure& measure) {
  const int64_t batches = boxes.size(0), rows = boxes.size(1), columns = query_boxes.size(1);
  const Tensor out = at::empty({batches, rows, columns}, boxes.options().dtype(at::kDouble));
  for (int64_t batch = 0; batch < batches; ++batch) {
    const std::vector<RotatedBox> of = rotated_boxes_of(boxes[batch], trans);
    const std::vector<RotatedBox> others = rotated_boxes_of(query_boxes[batch], trans);
    double* values = out.mutable_data_ptr<double>() + batch * rows * columns;
    at::parallel_for(0, rows * columns, /*grain_size=*/256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) values[i] = measure(of[i / columns], others[i % columns]);
    });
  }
  return out.to(boxes.scalar_type());
}

Tensor overlaps(const Tensor& boxes, const Tensor& query_boxes, bool trans) {
  check_compared("npu_rotated_overlaps", boxes, query_boxes);
  return of_all_pairs(boxes, query_boxes, trans,
                      [](const RotatedBox& a, const RotatedBox& b) { return intersection(a, b); });
}

Tensor of_pairs_meta(const Tensor& boxes, const Tensor& query_boxes) {
  return boxes.new_empty_symint({boxes.sym_size(0), boxes.sym_size(1), query_boxes.sym_size(1)});
}

Tensor overlaps_meta(const Tensor& boxes, const Tensor& query_boxes, bool) {
  check_compared("npu_rotated_overlaps", boxes, query_boxes);
  return of_pairs_meta(boxes, query_boxes);
}

void check_iou(const Tensor& boxes, const Tensor& query_boxes, int64_t mode, bool is_cross) {
  constexpr const char* kOp = "npu_rotated_iou";
  check_compared(kOp, boxes, query_boxes);
  check_choice(kOp, "mode", mode, {0, 1});
  if (!is_cross) check_same_shape(kOp, "query_boxes", query_boxes, "input", boxes);
}

Tensor rotated_iou(const Tensor& boxes, const Tensor& query_boxes, bool trans, int64_t mode, bool is_cross, double,
                   double) {
  check_iou(boxes, query_boxes, mode, is_cross);
  const auto measure = [&](const RotatedBox& a, const RotatedBox& b) {
    if (mode == 0) return overlap(a, b);
    return a.area() > 0 ? intersection(a, b) / a.area() : 0;
  };
  if (is_cross) return of_all_pairs(boxes, query_boxes, trans, measure);
  const auto one_by_one = [](const Tensor& x) { return x.reshape({-1, 1, 5}); };
  return of_all_pairs(one_by_one(boxes), one_by_one(query_boxes), trans, measure).view({boxes.size(0), boxes.size(1)});
}

Tensor rotated_iou_meta(const Tensor& boxes, const Tensor& query_boxes, bool, int64_t mode, bool is_cross, double,
                        double) {
  check_iou(boxes, query_boxes, mode, is_cross);
  if (is_cross) return of_pairs_meta(boxes, query_boxes);
  return boxes.new_empty_symint({boxes.sym_size(0), boxes.sym_size(1)});
}

}  // namespace

void define_rotated_boxes(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_rotated_box_encode(Tensor input, Tensor gt_bboxes, Tensor weight) -> Tensor",
      .kernel = parts(&rotated_box_encode),
      .definition = "Encodes gt_bboxes relative to the anchors input (Girshick et al., 2014, with an angle). Both are "
                    "[B, 5, N]: x0, y0, x1, y1 before the rotation, and the angle in degrees. The result is [B, 5, N] "
                    "in the type of input: the distances of the centres in x and y, divided by the width and height of "
                    "the anchor, the logarithms of the ratios of widths and of heights, and the difference of the "
                    "tangents of the angles, each multiplied by its element of weight [5].",
  });
  library.add({
      .schema = "npu::npu_rotated_box_decode(Tensor input, Tensor deltas, Tensor weight) -> Tensor",
      .kernel = parts(&rotated_box_decode),
      .definition = "Decodes boxes from deltas relative to the anchors input, the inverse of npu_rotated_box_encode. "
                    "All are [B, 5, N]. The angles of the result are between -90 and 90 degrees.",
  });
  library.add({
      .schema = "npu::npu_rotated_overlaps(Tensor input, Tensor query_boxes, bool trans=False) -> Tensor",
      .kernel = whole(&overlaps, &overlaps_meta),
      .definition = "Areas of intersection of all pairs of rotated boxes, by clipping polygons (Sutherland and "
                    "Hodgman, 1974). input [B, N, 5] and query_boxes [B, K, 5] are the centre x, y, then w, h and the "
                    "angle in degrees, or with trans x0, y0, x1, y1 before the rotation and angle. The result is [B, "
                    "N, K] in the type of input. Ascend does not publish the order of the dimensions and the unit of "
                    "the angle.",
  });
  library.add({
      .schema = "npu::npu_rotated_iou(Tensor input, Tensor query_boxes, bool trans=False, int mode=0, bool "
                "is_cross=True, float v_threshold=0.0, float e_threshold=0.0) -> Tensor",
      .kernel = whole(&rotated_iou, &rotated_iou_meta),
      .definition = "Intersection over union of rotated boxes, given as for npu_rotated_overlaps. With mode 1, the "
                    "intersection is divided by the area of the box in input instead of the union. The result is [B, "
                    "N, K] for all pairs, or [B, N] without is_cross, for the boxes with the same index, in the type "
                    "of input, with 0 where the divisor is 0. v_threshold and e_threshold are ignored, because the "
                    "intersection is computed in float64. Ascend does not publish what mode and is_cross mean; these "
                    "are as in box_iou_rotated of MMCV.",
  });
}

}  // namespace npugraph::npu_ops
