// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/vision/boxes.h"

#include <cmath>
#include <vector>

#include "device/npu_ops/families.h"

namespace npugraph::npu_ops {

void check_boxes(const char* op, const char* name, const Tensor& boxes, int64_t dim) {
  check_floating(op, name, boxes);
  check_dims(op, name, boxes, 2, 2);
  TORCH_CHECK(boxes.sym_size(dim) == 4, op, ": ", name, " has shape ", boxes.sym_sizes(),
              ", allowed is 4 in dimension ", dim);
}

Box box_of(const Tensor& boxes, int64_t dim, bool is_centre) {
  const auto parts = wide(boxes).unbind(dim);
  if (!is_centre) return {parts[0], parts[1], parts[2], parts[3]};
  const Tensor half_width = parts[2] / 2, half_height = parts[3] / 2;
  return {parts[0] - half_width, parts[1] - half_height, parts[0] + half_width, parts[1] + half_height};
}

Tensor intersection(const Box& a, const Box& b) {
  const Tensor width = (at::minimum(a.x1, b.x1) - at::maximum(a.x0, b.x0)).clamp_min(0);
  return width * (at::minimum(a.y1, b.y1) - at::maximum(a.y0, b.y0)).clamp_min(0);
}

Box hull(const Box& a, const Box& b) {
  return {at::minimum(a.x0, b.x0), at::minimum(a.y0, b.y0), at::maximum(a.x1, b.x1), at::maximum(a.y1, b.y1)};
}

Tensor ratio(const Tensor& part, const Tensor& whole) { return part / whole.masked_fill(whole == 0, 1); }

Tensor overlap(const Box& a, const Box& b, int64_t mode) {
  const Tensor both = intersection(a, b);
  return ratio(both, mode == 1 ? b.area() + at::zeros_like(both) : a.area() + b.area() - both);
}

Tensor distance(const Box& a, const Box& b) {
  return ((a.x0 + a.x1 - b.x0 - b.x1) / 2).square() + ((a.y0 + a.y1 - b.y0 - b.y1) / 2).square();
}

Tensor diagonal(const Box& box) { return box.width().square() + box.height().square(); }

Tensor angle(const Box& box) { return at::atan2(box.width(), box.height()); }

Tensor shape_penalty(const Tensor& difference) { return difference.square() * (4 / (M_PI * M_PI)); }

Tensor shape_weight(const Tensor& penalty, const Tensor& share) { return ratio(penalty, 1 - share + penalty); }

namespace {

Box with_dim(const Box& box, int64_t dim) {
  return {box.x0.unsqueeze(dim), box.y0.unsqueeze(dim), box.x1.unsqueeze(dim), box.y1.unsqueeze(dim)};
}

}  // namespace

BoxPairs pairs_of(const Comparison& how, const char* name, const Tensor& boxes, const Tensor& gtboxes) {
  check_boxes(how.op, name, boxes, how.dim);
  check_boxes(how.op, "gtboxes", gtboxes, how.dim);
  check_choice(how.op, "mode", how.mode, {0, 1});
  const Box a = box_of(boxes, how.dim, how.trans), b = box_of(gtboxes, how.dim, how.trans);
  if (how.is_cross) return {with_dim(a, 1), with_dim(b, 0)};
  check_same_shape(how.op, "gtboxes", gtboxes, name, boxes);
  return {a, b};
}

namespace {

Tensor iou_of(const char* op, const Tensor& boxes, const Tensor& gtboxes, int64_t mode) {
  const auto [box, gt] = pairs_of({op, 1, false, true, mode}, "bboxes", boxes, gtboxes);
  return overlap(box, gt, mode).t().contiguous().to(boxes.scalar_type());
}

Tensor iou(const Tensor& boxes, const Tensor& gtboxes, int64_t mode) { return iou_of("npu_iou", boxes, gtboxes, mode); }

Tensor ptiou(const Tensor& boxes, const Tensor& gtboxes, int64_t mode) {
  return iou_of("npu_ptiou", boxes, gtboxes, mode);
}

// `result` with two dimensions: results without is_cross get dimension `dim`, of size 1.
Tensor as_matrix(const Tensor& result, const Comparison& how, const Tensor& boxes) {
  return (how.is_cross ? result : result.unsqueeze(how.dim)).to(boxes.scalar_type());
}

Tensor giou(const Tensor& boxes, const Tensor& gtboxes, bool trans, bool is_cross, int64_t mode) {
  const Comparison how = {"npu_giou", 1, trans, is_cross, mode};
  const auto [a, b] = pairs_of(how, "input", boxes, gtboxes);
  const Tensor whole = hull(a, b).area();
  const Tensor joined = a.area() + b.area() - intersection(a, b);
  return as_matrix(overlap(a, b, mode) - ratio(whole - joined, whole), how, boxes);
}

Tensor diou_of(const BoxPairs& pairs, int64_t mode) {
  const auto& [a, b] = pairs;
  return overlap(a, b, mode) - ratio(distance(a, b), diagonal(hull(a, b)));
}

Tensor diou(const Tensor& boxes, const Tensor& gtboxes, bool trans, bool is_cross, int64_t mode) {
  const Comparison how = {"npu_diou", 0, trans, is_cross, mode};
  return as_matrix(diou_of(pairs_of(how, "input", boxes, gtboxes), mode), how, boxes);
}

Two ciou_parts(const Comparison& how, const Tensor& boxes, const Tensor& gtboxes) {
  const BoxPairs pairs = pairs_of(how, "input", boxes, gtboxes);
  const auto& [a, b] = pairs;
  const Tensor difference = angle(b) - angle(a);
  const Tensor penalty = shape_penalty(difference);
  // Gradients treat the weight as a constant (Zheng et al., 2020).
  const Tensor weight = shape_weight(penalty, overlap(a, b, how.mode)).detach();
  return {as_matrix(diou_of(pairs, how.mode) - weight * penalty, how, boxes), as_matrix(difference, how, boxes)};
}

Two ciou_saving(const Tensor& boxes, const Tensor& gtboxes, bool trans, bool is_cross, int64_t mode, bool) {
  return ciou_parts({"_npu_ciou", 0, trans, is_cross, mode}, boxes, gtboxes);
}

Tensor ciou(const Tensor& boxes, const Tensor& gtboxes, bool trans, bool is_cross, int64_t mode, bool) {
  return std::get<0>(ciou_parts({"npu_ciou", 0, trans, is_cross, mode}, boxes, gtboxes));
}

Tensor bounding_box_encode(const Tensor& anchors, const Tensor& boxes, double m0, double m1, double m2, double m3,
                           double s0, double s1, double s2, double s3) {
  constexpr const char* kOp = "npu_bounding_box_encode";
  check_boxes(kOp, "anchor_box", anchors, 1);
  check_same_shape(kOp, "ground_truth_box", boxes, "anchor_box", anchors);
  const Box a = box_of(anchors, 1, false), b = box_of(boxes, 1, false);
  const Tensor width = a.width() + 1, height = a.height() + 1;
  const Tensor x = (b.x0 + b.x1 - a.x0 - a.x1) / 2 / width, y = (b.y0 + b.y1 - a.y0 - a.y1) / 2 / height;
  const Tensor w = ((b.width() + 1) / width).log(), h = ((b.height() + 1) / height).log();
  return at::stack({(x - m0) / s0, (y - m1) / s1, (w - m2) / s2, (h - m3) / s3}, 1).to(anchors.scalar_type());
}

Tensor bounding_box_decode(const Tensor& rois, const Tensor& deltas, double m0, double m1, double m2, double m3,
                           double s0, double s1, double s2, double s3, at::IntArrayRef max_shape,
                           double wh_ratio_clip) {
  constexpr const char* kOp = "npu_bounding_box_decode";
  check_boxes(kOp, "rois", rois, 1);
  check_same_shape(kOp, "deltas", deltas, "rois", rois);
  TORCH_CHECK(max_shape.size() == 2, kOp, ": max_shape is ", max_shape, ", allowed are height and width");
  const Box a = box_of(rois, 1, false);
  const auto given = wide(deltas).unbind(1);
  const double limit = std::abs(std::log(wh_ratio_clip));
  const Tensor width = a.width() + 1, height = a.height() + 1;
  const Tensor w = width * (given[2] * s2 + m2).clamp(-limit, limit).exp();
  const Tensor h = height * (given[3] * s3 + m3).clamp(-limit, limit).exp();
  const Tensor x = (a.x0 + a.x1) / 2 + width * (given[0] * s0 + m0),
               y = (a.y0 + a.y1) / 2 + height * (given[1] * s1 + m1);
  const double right = max_shape[1] - 1, bottom = max_shape[0] - 1;
  return at::stack({(x - (w - 1) / 2).clamp(0, right), (y - (h - 1) / 2).clamp(0, bottom),
                    (x + (w - 1) / 2).clamp(0, right), (y + (h - 1) / 2).clamp(0, bottom)},
                   1)
      .to(rois.scalar_type());
}

Tensor anchor_response_flags(const Tensor& boxes, at::IntArrayRef size, at::IntArrayRef stride, int64_t anchors) {
  constexpr const char* kOp = "npu_anchor_response_flags";
  check_boxes(kOp, "input", boxes, 1);
  TORCH_CHECK(anchors >= 1, kOp, ": num_base_anchors is ", anchors, ", allowed are 1 and more");
  const Box box = box_of(boxes, 1, false);
  const Tensor x = ((box.x0 + box.x1) / 2 / stride[0]).floor().to(at::kLong);
  const Tensor y = ((box.y0 + box.y1) / 2 / stride[1]).floor().to(at::kLong);
  const int64_t cells = size[0] * size[1];
  const Tensor inside = (x >= 0).logical_and(x < size[1]).logical_and(y >= 0).logical_and(y < size[0]);
  const Tensor place = (y * size[1] + x).masked_fill(inside.logical_not(), cells);
  const Tensor hit = place.new_zeros({cells + 1}).scatter(0, place, 1).narrow(0, 0, cells);
  return hit.to(at::kByte).unsqueeze(1).expand({cells, anchors}).reshape(-1);
}

}  // namespace

void define_boxes(OperatorLibrary& library) {
  library.add({
      .schema = "npu::_npu_ciou(Tensor input, Tensor gtboxes, bool trans=False, bool is_cross=True, int mode=0, bool "
                "atan_sub_flag=False) -> (Tensor, Tensor)",
      .kernel = parts(&ciou_saving),
      .definition = "npu_ciou that also returns its difference of angles. Results: the CIoU, and atan(w / h) of "
                    "gtboxes minus that of input, of the same shape, which npu_ciou_backward takes as atan_sub. "
                    "atan_sub_flag is ignored.",
  });
  library.add({
      .schema = "npu::npu_anchor_response_flags(Tensor input, int[2] featmap_size, int[2] stride, int "
                "num_base_anchors) -> Tensor",
      .kernel = parts(&anchor_response_flags),
      .definition = "Marks the anchors of the cells of a feature map that contain the centre of a box (YOLO: Redmon et "
                    "al., 2016). input is [N, 4] as x0, y0, x1, y1; featmap_size is height and width in cells, and "
                    "stride the size of a cell in x and y. The result is uint8, [height * width * num_base_anchors], "
                    "with 1 for all anchors of such a cell and 0 elsewhere.",
  });
  library.add({
      .schema = "npu::npu_bounding_box_decode(Tensor rois, Tensor deltas, float means0, float means1, float means2, "
                "float means3, float stds0, float stds1, float stds2, float stds3, int[1] max_shape, float "
                "wh_ratio_clip) -> Tensor",
      .kernel = parts(&bounding_box_decode),
      .definition = "Decodes boxes from deltas relative to the anchors rois (Girshick et al., 2014), the inverse of "
                    "npu_bounding_box_encode. Both are [N, 4], rois as x0, y0, x1, y1 with sizes x1 - x0 + 1 and y1 - "
                    "y0 + 1. The logarithms of ratios of sizes, deltas[:, 2:] * stds + means, are clamped to "
                    "+-|log(wh_ratio_clip)|. The result is [N, 4] as x0, y0, x1, y1 in the type of rois, clamped to an "
                    "image of max_shape (height, width).",
  });
  library.add({
      .schema = "npu::npu_bounding_box_encode(Tensor anchor_box, Tensor ground_truth_box, float means0, float means1, "
                "float means2, float means3, float stds0, float stds1, float stds2, float stds3) -> Tensor",
      .kernel = parts(&bounding_box_encode),
      .definition = "Encodes ground_truth_box relative to anchor_box (Girshick et al., 2014). Both are [N, 4] as x0, "
                    "y0, x1, y1 with sizes x1 - x0 + 1 and y1 - y0 + 1. The result is (code - means) / stds, [N, 4] in "
                    "the type of anchor_box, where code is the distances of the centres in x and y, divided by the "
                    "width and height of the anchor, and the logarithms of the ratios of widths and of heights.",
  });
  library.add({
      .schema = "npu::npu_ciou(Tensor input, Tensor gtboxes, bool trans=False, bool is_cross=True, int mode=0, bool "
                "atan_sub_flag=False) -> Tensor",
      .kernel = parts(&ciou),
      .definition = "Complete IoU (Zheng et al., 2020): npu_diou minus alpha * v, where v = (4 / pi^2) * (difference "
                    "of atan(w / h))^2 and alpha = v / (1 - IoU + v). Gradients take alpha as a constant. The "
                    "arguments and the result are those of npu_diou, but is_cross is True by default. atan_sub_flag is "
                    "ignored.",
  });
  library.add({
      .schema = "npu::npu_ciou_backward(Tensor grad, Tensor bboxes, Tensor gtboxes, Tensor? atan_sub, bool "
                "trans=False, bool is_cross=True, int mode=0) -> (Tensor, Tensor)",
      .kernel = parts(&ciou_backward),
      .definition = "Gradients of npu_ciou with respect to bboxes, its input, and gtboxes, from the gradient grad of "
                    "its result, with alpha as a constant. atan_sub is the second result of _npu_ciou; where it is "
                    "None, it is computed.",
  });
  library.add({
      .schema =
          "npu::npu_diou(Tensor input, Tensor gtboxes, bool trans=False, bool is_cross=False, int mode=0) -> Tensor",
      .kernel = parts(&diou),
      .definition = "Distance IoU (Zheng et al., 2020): the IoU of two boxes minus (distance of their centres)^2 / "
                    "(diagonal of the smallest box around both)^2. input [4, N] and gtboxes [4, M] are x0, y0, x1, y1, "
                    "or with trans the centre and size x, y, w, h. The result is [1, N] for the boxes with the same "
                    "index, or with is_cross [N, M] for all pairs, in the type of input. With mode 1, IoU is the "
                    "intersection divided by the area of the box in gtboxes alone.",
  });
  library.add({
      .schema = "npu::npu_diou_backward(Tensor grad, Tensor bboxes, Tensor gtboxes, bool trans=False, bool "
                "is_cross=False, int mode=0) -> (Tensor, Tensor)",
      .kernel = parts(&diou_backward),
      .definition = "Gradients of npu_diou with respect to bboxes, its input, and gtboxes, from the gradient grad of "
                    "its result.",
  });
  library.add({
      .schema =
          "npu::npu_giou(Tensor input, Tensor gtboxes, bool trans=False, bool is_cross=False, int mode=0) -> Tensor",
      .kernel = parts(&giou),
      .definition = "Generalised IoU (Rezatofighi et al., 2019): the IoU of two boxes minus the share of the smallest "
                    "box around both that neither covers. input [N, 4] and gtboxes [M, 4] are x0, y0, x1, y1, or with "
                    "trans the centre and size x, y, w, h. The result is [N, 1] for the boxes with the same index, or "
                    "with is_cross [N, M] for all pairs, in the type of input. With mode 1, IoU is the intersection "
                    "divided by the area of the box in gtboxes alone.",
  });
  library.add({
      .schema = "npu::npu_giou_backward(Tensor grad, Tensor bboxes, Tensor gtboxes, bool trans=False, bool "
                "is_cross=False, int mode=0) -> (Tensor, Tensor)",
      .kernel = parts(&giou_backward),
      .definition = "Gradients of npu_giou with respect to bboxes, its input, and gtboxes, from the gradient grad of "
                    "its result.",
  });
  library.add({
      .schema = "npu::npu_iou(Tensor bboxes, Tensor gtboxes, int mode=0) -> Tensor",
      .kernel = parts(&iou),
      .definition = "Intersection over union of all pairs of bboxes [N, 4] and gtboxes [M, 4], given as x0, y0, x1, "
                    "y1. With mode 1, the intersection is divided by the area of the box in gtboxes instead of the "
                    "union. The result is [M, N] in the type of bboxes, with 0 where the divisor is 0.",
  });
  library.add({
      .schema = "npu::npu_ptiou(Tensor bboxes, Tensor gtboxes, int mode=0) -> Tensor",
      .kernel = parts(&ptiou),
      .definition = "Another name of npu_iou.",
  });
}

}  // namespace npugraph::npu_ops
