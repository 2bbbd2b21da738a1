// SPDX-License-Identifier: Apache-2.0
#include "codegen/convolution/convolution.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "base/error.h"
#include "codegen/convolution/depthwise.h"
#include "codegen/convolution/direct.h"
#include "codegen/convolution/image_product.h"
#include "codegen/task/planned_task.h"

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

// Orders of dimensions, outermost first.
constexpr std::array<size_t, 4> kContiguous = {0, 1, 2, 3};
constexpr std::array<size_t, 4> kChannelsLast = {0, 2, 3, 1};

// As is_contiguous() of tensor/shape.h: if there are no elements, strides do not matter.
bool is_dense(const Shape& shape, DType dtype, const std::array<size_t, 4>& order) {
  if (std::ranges::find(shape.sizes, 0) != shape.sizes.end()) return true;
  int64_t stride = size_of(dtype);
  for (size_t i = 4; i-- > 0; stride *= shape.sizes[order[i]]) {
    if (shape.sizes[order[i]] > 1 && shape.strides[order[i]] != stride) return false;
  }
  return true;
}

// The image; one of a single dimension gets another one, of size 1, in front.
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

bool bias_fits(const ng_buffer& bias, int64_t channels, DType dtype) {
  return bias.rank == 1 && bias.sizes[0] == channels && (channels == 1 || bias.strides[0] == 1) &&
         static_cast<DType>(bias.dtype) == dtype;
}

size_t number_of_buffers(const ConvolutionSpec& spec) {
  if (spec.epilogue) return 1 + spec.epilogue->buffers.size();
  return spec.convolution.bias ? 4 : 3;
}

// Whether the bias and the result fit a spec without an epilogue.
bool fit_ends(const ConvolutionSpec& spec, const ng_call& call, const std::array<int64_t, 4>& result) {
  const auto out = shape_of(call.buffers[call.num_buffers - 1], spec.convolution.stride.size(), spec.dtype);
  const bool fits_result = out && out->sizes == result &&
                           is_dense(*out, spec.dtype, spec.convolution.channels_last ? kChannelsLast : kContiguous);
  return fits_result && (!spec.convolution.bias || bias_fits(call.buffers[2], result[1], spec.dtype));
}

struct ConvolutionPlan {
  std::variant<ImageProductPlan, DirectPlan, DepthwisePlan> way;

  int64_t workspace() const {
    const auto* product = std::get_if<ImageProductPlan>(&way);
    return product != nullptr ? product->workspace() : 0;
  }
};

using ConvolutionCode = std::variant<ImageProductCode, DirectCode, DepthwiseCode>;

struct Operands {
  Image image;
  Shape weights, in;
  std::array<int64_t, 4> result;  // its sizes
};

ImageProductPlan plan_product(const ConvolutionSpec& spec, const target::Target& target, const Operands& of) {
  const int64_t groups = spec.convolution.groups;
  ImageProductPlan plan{.dtype = spec.dtype,
                        .batches = of.result[0],
                        .groups = groups,
                        .m = of.result[1] / groups,
                        .n = of.result[2] * of.result[3],
                        .k = of.weights.sizes[1] * of.image.taps(),
                        .batch_stride = of.in.strides[0],
                        .out = {of.result[2], of.result[3]},
                        .bias = !spec.epilogue && spec.convolution.bias};
  complete(plan, of.image, target);
  return plan;
}

DirectPlan plan_direct(const ConvolutionSpec& spec, const target::Target& target, const Operands& of) {
  const int64_t groups = spec.convolution.groups;
  DirectPlan plan{.image = of.image,
                  .dtype = spec.dtype,
                  .batches = of.result[0],
                  .groups = groups,
                  .channels_in = of.weights.sizes[1],
                  .channels_out = of.weights.sizes[0] / groups,
                  .out = {of.result[2], of.result[3]},
                  .batch_stride = of.in.strides[0],
                  .bias = !spec.epilogue && spec.convolution.bias};
  NG_CHECK(complete(plan, target), "the window of a direct convolution does not fit");
  return plan;
}

DepthwisePlan plan_depthwise(const ConvolutionSpec& spec, const target::Target& target, const Operands& of) {
  DepthwisePlan plan{.image = of.image,
                     .dtype = spec.dtype,
                     .batches = of.result[0],
                     .channels = of.result[1],
                     .out = {of.result[2], of.result[3]},
                     .batch_stride = of.in.strides[0],
                     .bias = !spec.epilogue && spec.convolution.bias};
  NG_CHECK(complete(plan, target), "the window of a depthwise convolution does not fit");
  return plan;
}

std::optional<ConvolutionPlan> plan_convolution(const ConvolutionSpec& spec, const target::Target& target,
                                                const ng_call& call) {
  if (call.num_buffers != number_of_buffers(spec)) return {};
  const size_t rank = spec.convolution.stride.size();
  const auto weights = shape_of(call.buffers[0], rank, spec.dtype);
  const auto in = shape_of(call.buffers[1], rank, spec.dtype);
  if (!weights || !in || !is_dense(*weights, spec.dtype, kContiguous)) return {};
  if (in->sizes[1] != weights->sizes[1] * spec.convolution.groups || weights->sizes[0] % spec.convolution.groups != 0)
    return {};
  const Image image = image_of(spec.convolution, *weights, *in);
  const Operands of{image, *weights, *in, {in->sizes[0], weights->sizes[0], image.out(0), image.out(1)}};
  if (!spec.epilogue && !fit_ends(spec, call, of.result)) return {};
  const bool direct = loop::is_direct(spec.convolution, {call.buffers[0].sizes, rank + 2});
  if (!spec.convolution.channels_last) {
    if (direct) return ConvolutionPlan{plan_direct(spec, target, of)};
    return ConvolutionPlan{plan_product(spec, target, of)};
  }
  const bool has_neighbours = in->sizes[1] <= 1 || in->strides[1] == size_of(spec.dtype);
  if (!direct || !has_neighbours) return {};
  return ConvolutionPlan{plan_depthwise(spec, target, of)};
}

struct Planner {
  ConvolutionSpec spec;
  std::shared_ptr<const EpilogueCode> end;  // nullptr: none
  target::Target target;

  std::optional<ConvolutionPlan> plan(const ng_call& call) const { return plan_convolution(spec, target, call); }
  ConvolutionCode code(const ConvolutionPlan& plan) const {
    return std::visit([this](const auto& way) -> ConvolutionCode { return code_for(way); }, plan.way);
  }
  static void run(const ConvolutionPlan& plan, const ConvolutionCode& code, const ng_call& call) {
    if (const auto* product = std::get_if<ImageProductPlan>(&plan.way))
      return run_image_product(*product, std::get<ImageProductCode>(code), call);
    if (const auto* direct = std::get_if<DirectPlan>(&plan.way))
      return run_direct(*direct, std::get<DirectCode>(code), call);
    run_depthwise(std::get<DepthwisePlan>(plan.way), std::get<DepthwiseCode>(code), call);
  }

 private:
  StoreSumsFunction* store() const { return spec.epilogue ? nullptr : store_sums_code(target, spec.dtype); }
  EpilogueFunction* epilogue() const { return end != nullptr ? end->function : nullptr; }

  ImageProductCode code_for(const ImageProductPlan& plan) const {
    const auto gather = [&](int vectors) {
      return has_gather_panel(target) ? gather_panel_code(target, plan.kind, vectors) : nullptr;
    };
    return {.tile = tile_code(target, plan.kind, plan.shape),
            .narrow_tile = tile_code(target, plan.kind, narrow(plan.shape)),
            .amx = amx_code(target, plan.kind),
            .interleave = interleave_code(target, plan.kind, plan.planes.dtype),
            .widen = widen_code(target, spec.dtype, plan.multiplied()),
            .copy = copy_rows_code(target, spec.dtype, plan.multiplied(), spec.convolution.stride.back()),
            .gather = gather(2),
            .narrow_gather = gather(1),
            .store = store(),
            .epilogue = epilogue()};
  }
  DirectCode code_for(const DirectPlan&) const {
    return {.tile = direct_tile_code(target, DirectLanes::kPixels),
            .copy = copy_rows_code(target, spec.dtype, DType::kF32, spec.convolution.stride.back()),
            .store = store(),
            .epilogue = epilogue()};
  }
  DepthwiseCode code_for(const DepthwisePlan&) const {
    return {.tile = direct_tile_code(target, DirectLanes::kChannels),
            .copy = copy_rows_code(target, spec.dtype, DType::kF32, 1),
            .store = store(),
            .epilogue = epilogue()};
  }
};

}  // namespace

ng_task make_convolution(const ConvolutionSpec& spec, const target::Target& target) {
  const bool has_f16 = spec.dtype == DType::kF16 && target.f16c;
  if (spec.dtype != DType::kF32 && spec.dtype != DType::kBF16 && !has_f16)
    throw UserError(cat("convolution: elements of ", name_of(spec.dtype), " on ", target.level));
  return PlannedTask<Planner>::make({spec, spec.epilogue ? epilogue_code(target, *spec.epilogue) : nullptr, target});
}

}  // namespace npugraph::codegen
