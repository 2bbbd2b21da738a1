// SPDX-License-Identifier: Apache-2.0
#include "codegen/convolution.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "codegen/matmul_run.h"
#include "codegen/planned_task.h"

namespace npugraph::codegen {
namespace {

// Sizes and strides of a buffer [a, b, rows, columns]; images of one dimension have one row.
struct Shape {
  std::array<int64_t, 4> sizes{};
  std::array<int64_t, 4> strides{};  // in bytes
};

std::optional<Shape> shape_of(const ng_buffer& buffer, size_t rank, DType dtype) {
  if (buffer.rank != static_cast<int>(rank) + 2 || static_cast<DType>(buffer.dtype) != dtype) return {};
  Shape shape{.sizes = {1, 1, 1, 1}};
  for (size_t d = 0; d < rank + 2; ++d) {
    const size_t to = d < 2 ? d : d + 2 - rank;
    shape.sizes[to] = buffer.sizes[d];
    shape.strides[to] = buffer.strides[d] * size_of(dtype);
  }
  return shape;
}

// As tensor/shape.h: where there are no elements, strides do not matter.
bool is_contiguous(const Shape& shape, DType dtype) {
  if (std::ranges::find(shape.sizes, 0) != shape.sizes.end()) return true;
  int64_t stride = size_of(dtype);
  for (size_t d = 4; d-- > 0; stride *= shape.sizes[d]) {
    if (shape.sizes[d] > 1 && shape.strides[d] != stride) return false;
  }
  return true;
}

int64_t out_size(int64_t size, int64_t kernel, int64_t step, int64_t padding, int64_t dilation) {
  return (size + 2 * padding - dilation * (kernel - 1) - 1) / step + 1;
}

// The image, padded with a dimension in front where it has but one.
Image image_of(const loop::Convolution& what, const Shape& weights, const Shape& image, const Shape& result) {
  Image made{.out_width = result.sizes[3], .strides = {image.strides[1], image.strides[2], image.strides[3]}};
  const size_t rank = what.stride.size();
  for (size_t d = 0; d < 2; ++d) {
    const bool has = d + rank >= 2;
    const size_t from = d + rank - 2;
    made.size[d] = image.sizes[d + 2];
    made.kernel[d] = weights.sizes[d + 2];
    made.step[d] = has ? what.stride[from] : 1;
    made.padding[d] = has ? what.padding[from] : 0;
    made.dilation[d] = has ? what.dilation[from] : 1;
  }
  return made;
}

bool fits(const Image& image, const Shape& weights, const Shape& in, const Shape& out, int64_t groups) {
  if (in.sizes[0] != out.sizes[0] || weights.sizes[0] != out.sizes[1] || in.sizes[1] != weights.sizes[1] * groups ||
      weights.sizes[0] % groups != 0)
    return false;
  for (size_t d = 0; d < 2; ++d) {
    if (out_size(image.size[d], image.kernel[d], image.step[d], image.padding[d], image.dilation[d]) !=
        out.sizes[d + 2])
      return false;
  }
  return true;
}

bool fits(const ng_buffer& bias, int64_t channels, DType dtype) {
  return bias.rank == 1 && bias.sizes[0] == channels && (channels == 1 || bias.strides[0] == 1) &&
         static_cast<DType>(bias.dtype) == dtype;
}

std::optional<MatmulPlan> plan_convolution(const loop::Convolution& what, DType dtype, const target::Target& target,
                                           const ng_call& call) {
  const uint32_t buffers = what.bias ? 4 : 3;
  if (call.num_buffers != buffers) return {};
  const size_t rank = what.stride.size();
  const auto weights = shape_of(call.buffers[0], rank, dtype);
  const auto in = shape_of(call.buffers[1], rank, dtype);
  const auto out = shape_of(call.buffers[buffers - 1], rank, dtype);
  if (!weights || !in || !out) return {};
  if (!is_contiguous(*weights, dtype) || !is_contiguous(*out, dtype)) return {};
  const Image image = image_of(what, *weights, *in, *out);
  if (!fits(image, *weights, *in, *out, what.groups)) return {};
  if (what.bias && !fits(call.buffers[2], out->sizes[1], dtype)) return {};

  MatmulPlan plan{.end_buffer = buffers};
  plan.image = image;
  plan.bias = what.bias;
  plan.m = weights->sizes[0] / what.groups;
  plan.n = out->sizes[2] * out->sizes[3];
  plan.k = weights->sizes[1] * weights->sizes[2] * weights->sizes[3];
  const int64_t size = size_of(dtype);
  plan.batch_sizes = {out->sizes[0], what.groups};
  plan.batches = out->sizes[0] * what.groups;
  plan.a = {plan.k * size, size, {0, plan.m * plan.k * size}, dtype};
  plan.b = {0, 0, {in->strides[0], weights->sizes[1] * in->strides[1]}, dtype};
  plan.c = {plan.n * size, size, {out->sizes[1] * plan.n * size, plan.m * plan.n * size}, dtype};
  complete(plan, target);
  return plan;
}

struct Planner {
  loop::Convolution what;
  DType dtype;
  target::Target target;

  std::optional<MatmulPlan> plan(const ng_call& call) const { return plan_convolution(what, dtype, target, call); }
  MatmulCode code(const MatmulPlan& plan) const {
    return find_code({.a = dtype, .b = dtype, .c = dtype, .epilogue = {}}, target, plan);
  }
  static void run(const MatmulPlan& plan, const MatmulCode& code, const ng_call& call) { run_matmul(plan, code, call); }
};

}  // namespace

ng_task make_convolution(const loop::Convolution& convolution, DType dtype, const target::Target& target) {
  if (dtype != DType::kF32 && !(dtype == DType::kBF16 && target.bf16_dot))
    throw UserError(cat("convolution: elements of ", name_of(dtype), " on ", name_of(target.level)));
  return PlannedTask<Planner>::make({convolution, dtype, target});
}

}  // namespace npugraph::codegen
