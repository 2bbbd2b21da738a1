// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/vision/polygons.h"

#include <cmath>

namespace npugraph::npu_ops {
namespace {

struct Point {
  double x, y;
};
using Polygon = std::vector<Point>;

Point operator-(const Point& a, const Point& b) { return {a.x - b.x, a.y - b.y}; }

double cross(const Point& a, const Point& b) { return a.x * b.y - a.y * b.x; }

// The corners in one direction of rotation, relative to `origin`.
Polygon corners_of(const RotatedBox& box, const Point& origin) {
  const double angle = box.angle * M_PI / 180, sine = std::sin(angle), cosine = std::cos(angle);
  Polygon out;
  for (const auto& [right, up] : {Point{-1, -1}, Point{1, -1}, Point{1, 1}, Point{-1, 1}}) {
    const double x = right * box.width / 2, y = up * box.height / 2;
    out.push_back({box.x - origin.x + x * cosine - y * sine, box.y - origin.y + x * sine + y * cosine});
  }
  return out;
}

// The part of `polygon` to the left of the line through `from` and `to` (Sutherland and Hodgman, 1974).
Polygon clipped(const Polygon& polygon, const Point& from, const Point& to) {
  Polygon out;
  for (size_t i = 0; i < polygon.size(); ++i) {
    const Point &here = polygon[i], &next = polygon[(i + 1) % polygon.size()];
    const double side = cross(to - from, here - from), next_side = cross(to - from, next - from);
    if (side >= 0) out.push_back(here);
    if ((side > 0 && next_side < 0) || (side < 0 && next_side > 0)) {
      const double share = side / (side - next_side);
      out.push_back({here.x + (next.x - here.x) * share, here.y + (next.y - here.y) * share});
    }
  }
  return out;
}

double area(const Polygon& polygon) {
  double twice = 0;
  for (size_t i = 0; i < polygon.size(); ++i) twice += cross(polygon[i], polygon[(i + 1) % polygon.size()]);
  return std::abs(twice) / 2;
}

bool are_apart(const RotatedBox& a, const RotatedBox& b) {
  const double reach = (std::hypot(a.width, a.height) + std::hypot(b.width, b.height)) / 2;
  return std::hypot(a.x - b.x, a.y - b.y) >= reach;
}

}  // namespace

std::vector<RotatedBox> rotated_boxes_of(const at::Tensor& rows, bool is_corners) {
  const at::Tensor plain = rows.to(at::kDouble).contiguous();
  const auto values = plain.accessor<double, 2>();
  std::vector<RotatedBox> out;
  for (int64_t i = 0; i < values.size(0); ++i) {
    const auto row = values[i];
    if (is_corners)
      out.push_back(
          {(row[0] + row[2]) / 2, (row[1] + row[3]) / 2, std::abs(row[2] - row[0]), std::abs(row[3] - row[1]), row[4]});
    else
      out.push_back({row[0], row[1], std::abs(row[2]), std::abs(row[3]), row[4]});
  }
  return out;
}

double intersection(const RotatedBox& a, const RotatedBox& b) {
  if (are_apart(a, b)) return 0;
  const Point origin = {a.x, a.y};
  const Polygon edges = corners_of(b, origin);
  Polygon common = corners_of(a, origin);
  for (size_t i = 0; i < edges.size(); ++i) common = clipped(common, edges[i], edges[(i + 1) % edges.size()]);
  return area(common);
}

double overlap(const RotatedBox& a, const RotatedBox& b) {
  const double both = intersection(a, b), all = a.area() + b.area() - both;
  return all > 0 ? both / all : 0;
}

}  // namespace npugraph::npu_ops
