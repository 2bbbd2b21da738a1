// SPDX-License-Identifier: Apache-2.0
// Boxes of detection, [N, 4] or [4, N], as corners x0, y0, x1, y1 or as centre and size x, y, w, h, in float32.
#pragma once

#include <tuple>

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

struct Box {
  Tensor x0, y0, x1, y1;
  Tensor width() const { return x1 - x0; }
  Tensor height() const { return y1 - y0; }
  Tensor area() const { return width() * height(); }
};

// Checks that `boxes` has two dimensions, and size 4 in dimension `dim`.
void check_boxes(const char* op, const char* name, const Tensor& boxes, int64_t dim);
Box box_of(const Tensor& boxes, int64_t dim, bool is_centre);
Tensor intersection(const Box& a, const Box& b);
Box hull(const Box& a, const Box& b);
// part / whole; `part` where `whole` is 0.
Tensor ratio(const Tensor& part, const Tensor& whole);
// The share of the intersection in the union, or with mode 1 in `b`.
Tensor overlap(const Box& a, const Box& b, int64_t mode);
// The square of the distance of centres.
Tensor distance(const Box& a, const Box& b);
// The square of the diagonal.
Tensor diagonal(const Box& box);
// atan(w / h), and a right angle where h is 0
Tensor angle(const Box& box);
// The penalty of npu_ciou for a difference of angles, without its weight; and the weight, for the overlap `share`.
Tensor shape_penalty(const Tensor& difference);
Tensor shape_weight(const Tensor& penalty, const Tensor& share);

// How two tensors of boxes are compared.
struct Comparison {
  const char* op;
  int64_t dim;  // the dimension of size 4
  bool trans, is_cross;
  int64_t mode;
};

struct BoxPairs {
  Box a, b;
};

// Pairs of boxes: with is_cross all, as [N, 1] and [1, M], otherwise those with the same index, [N].
BoxPairs pairs_of(const Comparison& how, const char* name, const Tensor& boxes, const Tensor& gtboxes);

// Gradients of npu_giou, npu_diou and npu_ciou for both tensors of boxes.
std::tuple<Tensor, Tensor> giou_backward(const Tensor& grad, const Tensor& boxes, const Tensor& gtboxes, bool trans,
                                         bool is_cross, int64_t mode);
std::tuple<Tensor, Tensor> diou_backward(const Tensor& grad, const Tensor& boxes, const Tensor& gtboxes, bool trans,
                                         bool is_cross, int64_t mode);
std::tuple<Tensor, Tensor> ciou_backward(const Tensor& grad, const Tensor& boxes, const Tensor& gtboxes,
                                         const OptionalTensor& atan_sub, bool trans, bool is_cross, int64_t mode);

}  // namespace npugraph::npu_ops
