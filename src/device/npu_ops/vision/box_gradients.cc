// SPDX-License-Identifier: Apache-2.0
// Gradients of overlaps of boxes, in closed form. A slope is [4, ...]: the derivatives of a quantity of two boxes by
// the corners x0, y0, x1, y1 of one of them.
#include <cmath>

#include "device/npu_ops/vision/boxes.h"

namespace npugraph::npu_ops {
namespace {

// 1 where `a` is more than `b`, and 1/2 where they are equal, as in the gradients of minimum and maximum in torch.
Tensor above(const Tensor& a, const Tensor& b) { return at::heaviside(a - b, a.new_full({}, 0.5)); }

Tensor slope(const Tensor& x0, const Tensor& y0, const Tensor& x1, const Tensor& y1) {
  return at::stack(at::broadcast_tensors({x0, y0, x1, y1}));
}

Tensor area_slope(const Box& box) {
  const Tensor width = box.width(), height = box.height();
  return slope(-height, -width, height, width);
}

Tensor intersection_slope(const Box& of, const Box& other) {
  const Tensor width = at::minimum(of.x1, other.x1) - at::maximum(of.x0, other.x0);
  const Tensor height = at::minimum(of.y1, other.y1) - at::maximum(of.y0, other.y0);
  const Tensor w = width.clamp_min(0) * height.ge(0), h = height.clamp_min(0) * width.ge(0);
  return slope(-h * above(of.x0, other.x0), -w * above(of.y0, other.y0), h * above(other.x1, of.x1),
               w * above(other.y1, of.y1));
}

// The slope of a quantity that has the derivatives `by_width` and `by_height` by the width and height of the hull.
Tensor hull_slope(const Box& of, const Box& other, const Tensor& by_width, const Tensor& by_height) {
  return slope(-by_width * above(other.x0, of.x0), -by_height * above(other.y0, of.y0),
               by_width * above(of.x1, other.x1), by_height * above(of.y1, other.y1));
}

Tensor ratio_slope(const Tensor& part, const Tensor& whole, const Tensor& of_part, const Tensor& of_whole) {
  const Tensor divisor = whole.masked_fill(whole == 0, 1);
  return (of_part - of_whole * (part / divisor)) / divisor;
}

enum class Side { kFirst, kSecond };

struct Sides {
  const Box &of, &other;
};

Sides sides(const BoxPairs& pairs, Side side) {
  return side == Side::kFirst ? Sides{pairs.a, pairs.b} : Sides{pairs.b, pairs.a};
}

Tensor overlap_slope(const BoxPairs& pairs, Side side, int64_t mode) {
  const auto [of, other] = sides(pairs, side);
  const Tensor both = intersection(of, other), of_both = intersection_slope(of, other);
  if (mode == 0) return ratio_slope(both, of.area() + other.area() - both, of_both, area_slope(of) - of_both);
  const Tensor of_whole = side == Side::kSecond ? area_slope(of) : at::zeros_like(of_both);
  return ratio_slope(both, pairs.b.area(), of_both, of_whole);
}

Tensor giou_slope(const BoxPairs& pairs, Side side, int64_t mode) {
  const auto [of, other] = sides(pairs, side);
  const Box around = hull(of, other);
  const Tensor whole = around.area(), joined = of.area() + other.area() - intersection(of, other);
  const Tensor of_whole = hull_slope(of, other, around.height(), around.width());
  const Tensor of_joined = area_slope(of) - intersection_slope(of, other);
  return overlap_slope(pairs, side, mode) - ratio_slope(whole - joined, whole, of_whole - of_joined, of_whole);
}

Tensor diou_slope(const BoxPairs& pairs, Side side, int64_t mode) {
  const auto [of, other] = sides(pairs, side);
  const Tensor x = (of.x0 + of.x1 - other.x0 - other.x1) / 2, y = (of.y0 + of.y1 - other.y0 - other.y1) / 2;
  const Box around = hull(of, other);
  const Tensor of_diagonal = hull_slope(of, other, around.width() * 2, around.height() * 2);
  return overlap_slope(pairs, side, mode) -
         ratio_slope(distance(of, other), diagonal(around), slope(x, y, x, y), of_diagonal);
}

Tensor angle_slope(const Box& box) {
  const Tensor by_width = ratio(box.height(), diagonal(box)), by_height = -ratio(box.width(), diagonal(box));
  return slope(-by_width, -by_height, by_width, by_height);
}

// `difference` is the angle of the second box minus that of the first.
Tensor ciou_slope(const BoxPairs& pairs, Side side, int64_t mode, const Tensor& difference) {
  const Tensor weight = shape_weight(shape_penalty(difference), overlap(pairs.a, pairs.b, mode));
  const Tensor along = weight * difference * ((side == Side::kFirst ? -1 : 1) * 8 / (M_PI * M_PI));
  return diou_slope(pairs, side, mode) - along * angle_slope(sides(pairs, side).of);
}

// The gradient of boxes like `like` from the gradient of their corners, `along`, [4, N] or [4, N, M]. `kept` is the
// dimension of [N, M] with these boxes.
Tensor as_boxes(const Tensor& along, const Comparison& how, int64_t kept, const Tensor& like) {
  const Tensor sum = how.is_cross ? along.sum(2 - kept) : along;
  const auto parts = sum.unbind(0);
  const Tensor out =
      how.trans
          ? at::stack({parts[0] + parts[2], parts[1] + parts[3], (parts[2] - parts[0]) / 2, (parts[3] - parts[1]) / 2},
                      how.dim)
          : at::stack(parts, how.dim);
  return out.to(like.scalar_type());
}

// `matrix`, which has one value for each pair, as [N] or, with is_cross, [N, M].
Tensor by_pairs(const Comparison& how, const char* name, const Tensor& matrix) {
  check_dims(how.op, name, matrix, 2, 2);
  if (how.is_cross) return wide(matrix);
  TORCH_CHECK(matrix.sym_size(how.dim) == 1, how.op, ": ", name, " has shape ", matrix.sym_sizes(),
              ", allowed is 1 in dimension ", how.dim, " without is_cross");
  return wide(matrix).select(how.dim, 0);
}

template <typename Slope>
Two gradients(const Comparison& how, const Tensor& grad, const Tensor& boxes, const Tensor& gtboxes,
              const Slope& slope_of) {
  const BoxPairs pairs = pairs_of(how, "bboxes", boxes, gtboxes);
  const Tensor given = by_pairs(how, "grad", grad);
  return {as_boxes(slope_of(pairs, Side::kFirst) * given, how, 0, boxes),
          as_boxes(slope_of(pairs, Side::kSecond) * given, how, 1, gtboxes)};
}

}  // namespace

Two giou_backward(const Tensor& grad, const Tensor& boxes, const Tensor& gtboxes, bool trans, bool is_cross,
                  int64_t mode) {
  return gradients({"npu_giou_backward", 1, trans, is_cross, mode}, grad, boxes, gtboxes,
                   [&](const BoxPairs& pairs, Side side) { return giou_slope(pairs, side, mode); });
}

Two diou_backward(const Tensor& grad, const Tensor& boxes, const Tensor& gtboxes, bool trans, bool is_cross,
                  int64_t mode) {
  return gradients({"npu_diou_backward", 0, trans, is_cross, mode}, grad, boxes, gtboxes,
                   [&](const BoxPairs& pairs, Side side) { return diou_slope(pairs, side, mode); });
}

Two ciou_backward(const Tensor& grad, const Tensor& boxes, const Tensor& gtboxes, const OptionalTensor& atan_sub,
                  bool trans, bool is_cross, int64_t mode) {
  const Comparison how = {"npu_ciou_backward", 0, trans, is_cross, mode};
  return gradients(how, grad, boxes, gtboxes, [&](const BoxPairs& pairs, Side side) {
    const bool given = atan_sub && atan_sub->defined();
    const Tensor difference = given ? by_pairs(how, "atan_sub", *atan_sub) : angle(pairs.b) - angle(pairs.a);
    return ciou_slope(pairs, side, mode, difference);
  });
}

}  // namespace npugraph::npu_ops
