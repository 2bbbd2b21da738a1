// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/rotary/rotations.h"

namespace npugraph::npu_ops {

Rotation rotation_of(const char* op, c10::string_view mode) {
  if (mode == "half") return Rotation::kHalf;
  if (mode == "interleave") return Rotation::kPairs;
  TORCH_CHECK(mode == "quarter", op, ": rotary_mode is '", mode, "', allowed are 'half', 'interleave' and 'quarter'");
  return Rotation::kQuarter;
}

Tensor turned(const Tensor& x, Rotation rotation) {
  if (rotation == Rotation::kPairs) {
    const auto pair = x.unflatten(-1, {-1, 2}).unbind(-1);
    return at::stack({-pair[1], pair[0]}, -1).flatten(-2);
  }
  if (rotation == Rotation::kHalf) {
    const auto half = x.chunk(2, -1);
    return at::cat({-half[1], half[0]}, -1);
  }
  const auto quarter = x.chunk(4, -1);
  return at::cat({-quarter[1], quarter[0], -quarter[3], quarter[2]}, -1);
}

Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin, Rotation rotation) {
  return wide(x) * wide(cos) + wide(turned(x, rotation)) * wide(sin);
}

Tensor evens_first(const Tensor& x) { return x.unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2); }

Tensor rotated_heads(const Tensor& x, int64_t head_size, const Tensor& cos, const Tensor& sin, Rotation rotation) {
  const c10::SymInt size = cos.sym_size(-1) * 2;
  const Tensor heads = x.unflatten(-1, {-1, head_size});
  const Tensor angled = heads.narrow_symint(-1, 0, size);
  const auto part = rotation == Rotation::kPairs ? angled.unflatten(-1, {-1, 2}).unbind(-1) : angled.chunk(2, -1);
  // Types are promoted by the products, so that generated code reads the angles as they are.
  const Tensor c = cos.unsqueeze(-2), s = sin.unsqueeze(-2);
  const Tensor first = (wide(part[0]) * c - wide(part[1]) * s).to(x.scalar_type());
  const Tensor second = (wide(part[1]) * c + wide(part[0]) * s).to(x.scalar_type());
  const Tensor turned =
      rotation == Rotation::kPairs ? at::stack({first, second}, -1).flatten(-2) : at::cat({first, second}, -1);
  if (size == head_size) return turned.flatten(-2);
  return at::cat({turned, heads.narrow_symint(-1, size, head_size - size)}, -1).flatten(-2);
}

}  // namespace npugraph::npu_ops
