// SPDX-License-Identifier: Apache-2.0
// Padding, reversal and other sizes: elements of the result come from places that follow from sizes alone.
#include <array>
#include <functional>

#include "base/error.h"
#include "ge/import/rules.h"
#include "ops/operators.h"

namespace npugraph::ge {
namespace {

// The elements at these places along a dimension.
ir::ValueId taken(Context& context, ir::ValueId x, size_t dim, ir::ValueId places) {
  std::vector<TensorRef> indices(dim);
  indices.push_back({places});
  return context.add(aten::_unsafe_index_Tensor::op(), {TensorRef{x}, indices});
}

template <typename Operator>
ir::ValueId with(Context& context, ir::ValueId x, const Attr& other) {
  return context.add(Operator::op(), {TensorRef{x}, other});
}
template <typename Operator>
ir::ValueId with(Context& context, ir::ValueId x, ir::ValueId other) {
  return with<Operator>(context, x, Attr(TensorRef{other}));
}

std::vector<Operand> reverse(const Call& call) {
  Context& context = call.context();
  ir::ValueId x = call.value("x");
  const std::vector<Expr> sizes = context.sizes(x);
  std::vector<Expr> dims;
  for (const int64_t axis : call.integers("axis")) {
    const size_t dim = dimension(call, axis, sizes.size());
    if (sizes[dim].as_int()) {
      dims.emplace_back(static_cast<int64_t>(dim));
    } else {
      const ir::ValueId last = as_tensor(context, sizes[dim] - Expr(1), DType::kI64);
      x = taken(context, x, dim, with<aten::sub_Tensor>(context, last, counted(context, sizes[dim])));
    }
  }
  return one(dims.empty() ? x : context.add(aten::flip::op(), {TensorRef{x}, dims}));
}

// Pairs of numbers of elements in front of and behind a dimension, of all dimensions.
std::vector<std::pair<Expr, Expr>> paddings(const Call& call) {
  const std::vector<Expr>& all = call.numbers("paddings").elements;
  const size_t rank = call.context().sizes(call.value("x")).size();
  if (all.size() != 2 * rank)
    call.fail(cat("its input 'paddings' has two entries for each of ", rank, " dimensions, got ", all.size()));
  std::vector<std::pair<Expr, Expr>> pairs;
  for (size_t d = 0; d < rank; ++d) pairs.emplace_back(all[2 * d], all[2 * d + 1]);
  return pairs;
}

std::vector<Operand> pad_constant(const Call& call) {
  std::vector<Expr> from_last;
  const auto pairs = paddings(call);
  for (size_t d = pairs.size(); d-- > 0;) {
    from_last.push_back(pairs[d].first);
    from_last.push_back(pairs[d].second);
  }
  const Attr value = call.has("constant_values") ? Attr(call.scalar("constant_values")) : number(0);
  return one(call.context().add(aten::constant_pad_nd::op(), {TensorRef{call.value("x")}, from_last, value}));
}

// Elements outside are those of the edge, or mirrored at it: the edge itself does not repeat.
std::vector<Operand> pad_from_inside(const Call& call, bool mirrors) {
  Context& context = call.context();
  ir::ValueId x = call.value("x");
  const std::vector<Expr> sizes = context.sizes(x);
  const auto pairs = paddings(call);
  for (size_t d = 0; d < pairs.size(); ++d) {
    const auto& [before, behind] = pairs[d];
    if (before.is_int(0) && behind.is_int(0)) continue;
    const std::optional<int64_t> size = sizes[d].as_int(), front = before.as_int(), back = behind.as_int();
    if (!front || !back || *front < 0 || *back < 0)
      call.fail(cat("its input 'paddings' has constants of at least 0, got ", before.str(), " and ", behind.str()));
    if (size && (*size == 0 || (mirrors && (*front >= *size || *back >= *size))))
      call.fail(cat("padding of ", *front, " and ", *back, " is too much for a size of ", *size));
    const ir::ValueId last = as_tensor(context, sizes[d] - Expr(1), DType::kI64);
    const ir::ValueId place =
        with<aten::sub_Tensor>(context, counted(context, sizes[d] + before + behind), Attr(before));
    ir::ValueId from = ir::kNone;
    if (mirrors) {
      const ir::ValueId to_last =
          with<aten::sub_Tensor>(context, last, context.add(aten::abs::op(), {TensorRef{place}}));
      from = with<aten::sub_Tensor>(context, last, context.add(aten::abs::op(), {TensorRef{to_last}}));
    } else {
      from = with<aten::minimum>(context, context.add(aten::clamp_min::op(), {TensorRef{place}, Expr(0)}), last);
    }
    x = taken(context, x, d, from);
  }
  return one(x);
}
std::vector<Operand> pad(const Call& call) {
  const std::string mode = call.attr_string("mode");
  if (mode == "constant") return pad_constant(call);
  if (mode == "edge" || mode == "reflect") return pad_from_inside(call, mode == "reflect");
  call.fail(cat("its attribute 'mode' is 'constant', 'edge' or 'reflect', got '", mode, "'"));
}
std::vector<Operand> mirror_pad(const Call& call) {
  if (const std::string mode = call.attr_string("mode"); mode != "REFLECT")
    call.fail(cat("its attribute 'mode' has to be 'REFLECT', got '", mode, "'"));
  return pad_from_inside(call, true);
}

// Place o of a dimension has the element o * in / out, rounded down. The quotient is one of f32.
std::vector<Operand> resize_nearest(const Call& call) {
  if (call.attr_bool("align_corners") || call.attr_bool("half_pixel_centers"))
    call.fail("its attributes 'align_corners' and 'half_pixel_centers' have to be false");
  Context& context = call.context();
  ir::ValueId x = call.value("x");
  const std::vector<Expr> sizes = context.sizes(x), wanted = call.numbers("size").elements;
  if (sizes.size() != 4 || wanted.size() != 2) call.fail("its 'x' has 4 dimensions, and its 'size' 2 entries");
  for (size_t i = 0; i < 2; ++i) {
    const size_t d = 2 + i;
    if (sizes[d] == wanted[i]) continue;
    const auto as_float = [&](const Expr& size) { return as_tensor(context, size, DType::kF32); };
    const ir::ValueId scale = with<aten::div_Tensor>(context, as_float(sizes[d]), as_float(wanted[i]));
    const ir::ValueId place = context.add(aten::_to_copy::op(), {TensorRef{counted(context, wanted[i])}, DType::kF32});
    const ir::ValueId scaled =
        context.add(aten::floor::op(), {TensorRef{with<aten::mul_Tensor>(context, place, scale)}});
    const ir::ValueId from = context.add(aten::_to_copy::op(), {TensorRef{scaled}, DType::kI64});
    x = taken(context, x, d, with<aten::minimum>(context, from, as_tensor(context, sizes[d] - Expr(1), DType::kI64)));
  }
  return one(x);
}

constexpr auto kImageRules = std::to_array<RuleRow>({
    {"MirrorPad", mirror_pad},
    {"PadV3", pad},
    {"ResizeNearestNeighborV2", resize_nearest},
    {"ReverseV2", reverse},
});

}  // namespace

std::span<const RuleRow> image_rules() { return kImageRules; }

}  // namespace npugraph::ge
