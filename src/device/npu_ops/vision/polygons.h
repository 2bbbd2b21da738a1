// SPDX-License-Identifier: Apache-2.0
// Rotated rectangles, on the host.
#pragma once

#include <vector>

#include <ATen/ATen.h>

namespace npugraph::npu_ops {

struct RotatedBox {
  double x, y;           // of the centre
  double width, height;  // not negative
  double angle;          // in degrees
  double area() const { return width * height; }
};

// Rows of 5: x, y, w, h, angle; or with `is_corners` x0, y0, x1, y1, angle: the corners before the box is turned around
// its centre.
std::vector<RotatedBox> rotated_boxes_of(const at::Tensor& rows, bool is_corners);

// The area that both cover.
double intersection(const RotatedBox& a, const RotatedBox& b);
// The intersection divided by the union; 0 if the union is empty.
double overlap(const RotatedBox& a, const RotatedBox& b);

}  // namespace npugraph::npu_ops
