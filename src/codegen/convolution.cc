// SPDX-License-Identifier: Apache-2.0
#include "codegen/convolution.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "codegen/direct.h"
#include "codegen/image_product.h"
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

// The image, padded with a dimension in front where it has but one.
Image image_of(const loop::Convolution& what, const Shape& weights, const Shape& image) {
  Image made{.strides = {image.strides[1], image.strides[2], image.strides[3]}};
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

bool fits(const ng_buffer& bias, int64_t channels, DType dtype) {
  return bias.rank == 1 && bias.sizes[0] == channels && (channels == 1 || bias.strides[0] == 1) &&
         static_cast<DType>(bias.dtype) == dtype;
}

size_t number_of_buffers(const ConvolutionSpec& spec) {
  if (spec.epilogue) return 1 + spec.epilogue->buffers.size();
  return spec.convolution.bias ? 4 : 3;
}

// What is left of the buffers where there is no epilogue that knows them.
bool fit_ends(const ConvolutionSpec& spec, const ng_call& call, const std::array<int64_t, 4>& result) {
  const auto out = shape_of(call.buffers[call.num_buffers - 1], spec.convolution.stride.size(), spec.dtype);
  const bool fits_result = out && out->sizes == result && is_contiguous(*out, spec.dtype);
  return fits_result && (!spec.convolution.bias || fits(call.buffers[2], result[1], spec.dtype));
}

// One or the other.
struct ConvolutionPlan {
  std::optional<ImageProductPlan> product;
  std::optional<DirectPlan> direct;

  int64_t workspace() const { return product ? product->workspace() : 0; }
};

struct ConvolutionCode {
  ImageProductCode product;
  DirectCode direct;
};

bool is_direct(const ConvolutionSpec& spec, const ng_buffer& weights) {
  return loop::is_direct(spec.convolution, {weights.sizes, static_cast<size_t>(weights.rank)});
}

DirectPlan plan_direct(const ConvolutionSpec& spec, const target::Target& target, const Image& image,
                       const Shape& weights, const Shape& in, const std::array<int64_t, 4>& result) {
  const int64_t groups = spec.convolution.groups;
  DirectPlan plan{.image = image,
                  .dtype = spec.dtype,
                  .batches = result[0],
                  .groups = groups,
                  .channels_in = weights.sizes[1],
                  .channels_out = weights.sizes[0] / groups,
                  .out = {result[2], result[3]},
                  .batch_stride = in.strides[0],
                  .bias = !spec.epilogue && spec.convolution.bias};
  NG_CHECK(complete(plan, target), "the window of a direct convolution does not fit");
  return plan;
}

std::optional<ConvolutionPlan> plan_convolution(const ConvolutionSpec& spec, const target::Target& target,
                                                const ng_call& call) {
  if (call.num_buffers != number_of_buffers(spec)) return {};
  const int64_t groups = spec.convolution.groups;
  const size_t rank = spec.convolution.stride.size();
  const auto weights = shape_of(call.buffers[0], rank, spec.dtype);
  const auto in = shape_of(call.buffers[1], rank, spec.dtype);
  if (!weights || !in || !is_contiguous(*weights, spec.dtype)) return {};
  if (in->sizes[1] != weights->sizes[1] * groups || weights->sizes[0] % groups != 0) return {};
  const Image image = image_of(spec.convolution, *weights, *in);
  const std::array<int64_t, 4> result = {in->sizes[0], weights->sizes[0], image.out(0), image.out(1)};
  if (!spec.epilogue && !fit_ends(spec, call, result)) return {};
  if (is_direct(spec, call.buffers[0]))
    return ConvolutionPlan{.product = {}, .direct = plan_direct(spec, target, image, *weights, *in, result)};

  ImageProductPlan plan{.dtype = spec.dtype,
                        .batches = result[0],
                        .groups = groups,
                        .m = result[1] / groups,
                        .n = result[2] * result[3],
                        .k = weights->sizes[1] * image.taps(),
                        .batch_stride = in->strides[0],
                        .out = {result[2], result[3]},
                        .bias = !spec.epilogue && spec.convolution.bias};
  complete(plan, image, target);
  return ConvolutionPlan{.product = std::move(plan), .direct = {}};
}

struct Planner {
  ConvolutionSpec spec;
  target::Target target;

  std::optional<ConvolutionPlan> plan(const ng_call& call) const { return plan_convolution(spec, target, call); }
  ConvolutionCode code(const ConvolutionPlan& plan) const {
    StoreSumsFunction* store = spec.epilogue ? nullptr : store_sums_code(target, spec.dtype);
    EpilogueFunction* epilogue = spec.epilogue ? epilogue_code(target, *spec.epilogue) : nullptr;
    const auto copy = [&](DType to_type) {
      return copy_rows_code(target, spec.dtype, to_type, spec.convolution.stride.back());
    };
    if (plan.direct) return {{}, {direct_tile_code(target), copy(DType::kF32), store, epilogue}};
    const TileKind kind = plan.product->kind;
    const auto gather = [&](int vectors) {
      return has_gather_panel(target) ? gather_panel_code(target, kind, vectors) : nullptr;
    };
    return {{tile_code(target, kind, false), tile_code(target, kind, true), interleave_code(target, kind),
             copy(spec.dtype), gather(2), gather(1), store, epilogue},
            {}};
  }
  static void run(const ConvolutionPlan& plan, const ConvolutionCode& code, const ng_call& call) {
    plan.product ? run_image_product(*plan.product, code.product, call) : run_direct(*plan.direct, code.direct, call);
  }
};

}  // namespace

ng_task make_convolution(const ConvolutionSpec& spec, const target::Target& target) {
  if (spec.dtype != DType::kF32 && !(spec.dtype == DType::kBF16 && target.bf16_dot))
    throw UserError(cat("convolution: elements of ", name_of(spec.dtype), " on ", name_of(target.level)));
  if (spec.epilogue) epilogue_code(target, *spec.epilogue);
  return PlannedTask<Planner>::make({spec, target});
}

}  // namespace npugraph::codegen
