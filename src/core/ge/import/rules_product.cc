// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions.
#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "ge/import/rules.h"
#include "ops/operators.h"
#include "tensor/shape.h"

namespace npugraph::ge {

namespace {

ir::ValueId transposed(Context& context, ir::ValueId x, bool transpose) {
  if (!transpose) return x;
  if (context.sizes(x).size() == 2) return context.add(aten::t::op(), {TensorRef{x}});
  return context.add(aten::transpose_int::op(), {TensorRef{x}, Expr(-2), Expr(-1)});
}

void refuse_offset(const Call& call) {
  if (call.has("offset_w") || call.attr_int("offset_x") != 0) call.fail("offsets of integer products have no rule");
}

ir::ValueId with_bias(const Call& call, ir::ValueId product) {
  if (!call.has("bias")) return product;
  Context& context = call.context();
  const ir::ValueId bias = call.value("bias");
  context.require_broadcast(context.sizes(product), context.sizes(bias));
  return context.add(aten::add_Tensor::op(), {TensorRef{product}, TensorRef{bias}});
}

std::vector<Operand> matmul(const Call& call) {
  Context& context = call.context();
  const ir::ValueId a = transposed(context, call.value("x1"), call.attr_bool("transpose_x1"));
  const ir::ValueId b = transposed(context, call.value("x2"), call.attr_bool("transpose_x2"));
  if (context.sizes(a).size() != 2 || context.sizes(b).size() != 2) call.fail("its factors have two dimensions");
  context.require_equal(context.sizes(a)[1], context.sizes(b)[0]);
  if (call.has("bias")) {
    const ir::ValueId bias = call.value("bias");
    const std::vector<Expr> product = {context.sizes(a)[0], context.sizes(b)[1]};
    context.require_broadcast(product, context.sizes(bias));
    return one(context.add(aten::addmm::op(), {TensorRef{bias}, TensorRef{a}, TensorRef{b}}));
  }
  return one(context.add(aten::mm::op(), {TensorRef{a}, TensorRef{b}}));
}

// A copy whose columns are contiguous, unless those of the matrix are.
ir::ValueId by_columns(Context& context, ir::ValueId x) {
  if (context.type(x).strides[0].is_int(1)) return x;
  const ir::ValueId t = context.add(aten::t::op(), {TensorRef{x}});
  const ir::ValueId copy = context.add(aten::clone::op(), {TensorRef{t}, MemoryFormat::kContiguous});
  return context.add(aten::t::op(), {TensorRef{copy}});
}

// Products of i8 have sums of i32. Their code reads the second factor by columns.
std::vector<Operand> matmul_v2(const Call& call) {
  refuse_offset(call);
  Context& context = call.context();
  ir::ValueId a = call.value("x1"), b = call.value("x2");
  if (context.type(a).dtype != DType::kI8 || context.type(b).dtype != DType::kI8 || call.has("bias"))
    return matmul(call);
  a = transposed(context, a, call.attr_bool("transpose_x1"));
  b = transposed(context, b, call.attr_bool("transpose_x2"));
  if (context.sizes(a).size() != 2 || context.sizes(b).size() != 2) call.fail("its factors have two dimensions");
  context.require_equal(context.sizes(a)[1], context.sizes(b)[0]);
  return one(context.add(aten::_int_mm::op(), {TensorRef{a}, TensorRef{by_columns(context, b)}}));
}

// One tensor of rows, whose groups each have a matrix of `weight`. `group_list` has the ends of the groups
// (`group_list_type` 0), or their numbers of rows (1).
std::vector<Operand> grouped_matmul(const Call& call) {
  for (const std::string_view name : {"bias", "scale", "offset", "antiquant_scale", "antiquant_offset"}) {
    if (!call.list(name).empty()) call.fail(cat("its input '", name, "' has no rule"));
  }
  const auto rows = call.list("x"), matrices = call.list("weight");
  if (rows.size() != 1 || matrices.size() != 1 || !call.has("group_list") || call.has("per_token_scale"))
    call.fail("it has a rule for one 'x', one 'weight' and a 'group_list'");
  const int64_t split = call.attr_int("split_item"), kind = call.attr_int("group_list_type");
  if (split != 2 && split != 3) call.fail(cat("its attribute 'split_item' has to be 2 or 3, got ", split));
  if (call.attr_int("group_type") != 0 || call.attr_int("act_type") != 0 || call.attr_bool("transpose_x"))
    call.fail("its attributes 'group_type' and 'act_type' have to be 0, and 'transpose_x' false");
  if (kind != 0 && kind != 1) call.fail(cat("its attribute 'group_list_type' has to be 0 or 1, got ", kind));
  Context& context = call.context();
  const ir::ValueId x = context.value_of(*rows[0]);
  const ir::ValueId w = transposed(context, context.value_of(*matrices[0]), call.attr_bool("transpose_weight"));
  ir::ValueId ends = call.value("group_list");
  if (context.sizes(x).size() != 2 || context.sizes(w).size() != 3 || context.sizes(ends).size() != 1)
    call.fail("its 'x' has 2 dimensions, its 'weight' 3 and its 'group_list' 1");
  context.require_equal(context.sizes(x)[1], context.sizes(w)[1]);
  context.require_equal(context.sizes(w)[0], context.sizes(ends)[0]);
  if (kind == 1) ends = context.add(aten::cumsum::op(), {TensorRef{ends}, Expr(0), None{}});
  return one(context.add(aten::_grouped_mm::op(), {TensorRef{x}, TensorRef{w}, TensorRef{ends}}));
}

// The sizes in front of the matrices, broadcast together.
std::vector<Expr> batch_of(Context& context, ir::ValueId a, ir::ValueId b) {
  const auto front = [&](ir::ValueId x) {
    const std::vector<Expr>& sizes = context.sizes(x);
    return std::vector<Expr>(sizes.begin(), sizes.end() - 2);
  };
  std::vector<Expr> batch = front(a), other = front(b);
  context.require_broadcast(batch, other);
  if (batch.size() < other.size()) std::swap(batch, other);
  for (size_t i = 1; i <= other.size(); ++i) {
    Expr& size = batch[batch.size() - i];
    if (size.is_int(1)) size = other[other.size() - i];
  }
  return batch;
}

// Matrices with the sizes `batch` in front of them, as one dimension.
ir::ValueId joined(Context& context, ir::ValueId x, std::vector<Expr> batch) {
  const std::vector<Expr> sizes = context.sizes(x);
  const Expr rows = sizes[sizes.size() - 2], columns = sizes[sizes.size() - 1];
  const Expr count = numel(batch);
  batch.push_back(rows);
  batch.push_back(columns);
  if (batch != sizes) x = context.add(aten::expand::op(), {TensorRef{x}, batch});
  return reshape(context, x, {count, rows, columns});
}

std::vector<Operand> batch_matmul(const Call& call) {
  Context& context = call.context();
  const ir::ValueId a = transposed(context, call.value("x1"), call.attr_bool("adj_x1"));
  const ir::ValueId b = transposed(context, call.value("x2"), call.attr_bool("adj_x2"));
  if (context.sizes(a).size() < 2 || context.sizes(b).size() < 2) call.fail("its factors have at least two dimensions");
  const Expr rows = context.sizes(a)[context.sizes(a).size() - 2], columns = context.sizes(b).back();
  context.require_equal(context.sizes(a).back(), context.sizes(b)[context.sizes(b).size() - 2]);
  std::vector<Expr> sizes = batch_of(context, a, b);
  if (sizes.empty()) return one(context.add(aten::mm::op(), {TensorRef{a}, TensorRef{b}}));
  const ir::ValueId product =
      context.add(aten::bmm::op(), {TensorRef{joined(context, a, sizes)}, TensorRef{joined(context, b, sizes)}});
  sizes.push_back(rows);
  sizes.push_back(columns);
  return one(reshape(context, product, sizes));
}

std::vector<Operand> batch_matmul_v2(const Call& call) {
  refuse_offset(call);
  return one(with_bias(call, batch_matmul(call).front().value));
}

// The number of groups, each of which has as many channels of the image and as many of the result as any other.
int64_t groups_of(const Call& call, const Expr& filters) {
  const int64_t groups = call.attr_int("groups");
  if (groups < 1) call.fail(cat("its attribute 'groups' is at least 1, got ", groups));
  if (groups > 1 && (!filters.as_int() || *filters.as_int() % groups != 0))
    call.fail(cat(groups, " groups have the same number of filters each, got ", filters.str(), " filters"));
  return groups;
}

void require_bias(const Call& call, const Expr& result_channels) {
  if (!call.has("bias")) return;
  Context& context = call.context();
  context.require_equal(numel(context.sizes(call.value("bias"))), result_channels);
}

struct Convolution {
  ir::ValueId x = ir::kNone, filter = ir::kNone;
  std::vector<Expr> strides, padding;
  int64_t groups = 1;
};

// The same elements with the strides of a row-major tensor, also along dimensions of size 1.
ir::ValueId row_major(Context& context, ir::ValueId x) {
  const ir::TensorType type = context.type(x);
  if (type.strides == contiguous_strides(type.sizes)) return x;
  if (is_contiguous(type.sizes, type.strides)) return context.add(aten::view::op(), {TensorRef{x}, type.sizes});
  return context.add(aten::clone::op(), {TensorRef{x}, MemoryFormat::kContiguous});
}

bool are_all(const std::vector<Expr>& numbers, int64_t number) {
  return std::ranges::all_of(numbers, [&](const Expr& e) { return e.is_int(number); });
}

// Whether no pixel of the result is made from two pixels, or from two groups of channels.
bool is_of_single_pixels(const Context& context, const Convolution& of) {
  const std::vector<Expr>& filter = context.sizes(of.filter);
  return of.groups == 1 && are_all({filter[2], filter[3]}, 1) && are_all(of.padding, 0);
}

// Whether there is code for the convolution of images whose channels are neighbours in memory: it is a product of
// pixels, or each channel has a filter of its own.
bool has_code_for_pixels(const Context& context, const Convolution& of) {
  const ir::TensorType &image = context.type(of.x), &filter = context.type(of.filter);
  if (!image.strides[1].is_int(1) || is_contiguous(image.sizes, image.strides)) return false;
  if (filter.sizes[1].is_int(1) && filter.sizes[0] == Expr(of.groups)) return true;
  return is_of_single_pixels(context, of) && are_all(of.strides, 1);
}

// The convolution of images that are one pixel each.
ir::ValueId product_of_pixels(const Call& call, const Convolution& of) {
  Context& context = call.context();
  const Expr images = context.sizes(of.x)[0], channels = context.sizes(of.x)[1], results = context.sizes(of.filter)[0];
  const ir::ValueId pixels = reshape(context, of.x, {images, channels});
  const ir::ValueId weights = transposed(context, reshape(context, of.filter, {results, channels}), true);
  const ir::ValueId product =
      call.has("bias") ? context.add(aten::addmm::op(), {call.argument("bias"), TensorRef{pixels}, TensorRef{weights}})
                       : context.add(aten::mm::op(), {TensorRef{pixels}, TensorRef{weights}});
  return reshape(context, product, {images, results, Expr(1), Expr(1)});
}

std::vector<Operand> conv2d(const Call& call) {
  require_channels_first(call);
  refuse_offset(call);
  const std::vector<int64_t> pads = four_pads(call);
  Context& context = call.context();
  ir::ValueId x = call.value("x");
  std::vector<Expr> padding = {Expr(pads[0]), Expr(pads[2])};
  if (pads[0] != pads[1] || pads[2] != pads[3]) {
    const std::vector<Expr> around = {Expr(pads[2]), Expr(pads[3]), Expr(pads[0]), Expr(pads[1])};
    x = context.add(aten::constant_pad_nd::op(), {TensorRef{x}, around, number(0)});
    padding = {Expr(0), Expr(0)};
  }
  const ir::ValueId filter = call.value("filter");
  if (context.sizes(x).size() != 4 || context.sizes(filter).size() != 4) call.fail("its tensors have 4 dimensions");
  const int64_t groups = groups_of(call, context.sizes(filter)[0]);
  context.require_equal(context.sizes(x)[1], context.sizes(filter)[1] * Expr(groups));
  require_bias(call, context.sizes(filter)[0]);
  const std::vector<Expr> strides = height_and_width(call, "strides", 1);
  const Convolution of = {x, filter, strides, padding, groups};
  if (is_of_single_pixels(context, of) && are_all({context.sizes(x)[2], context.sizes(x)[3]}, 1))
    return one(product_of_pixels(call, of));
  if (!has_code_for_pixels(context, of)) x = row_major(context, x);
  return one(context.add(aten::convolution::op(),
                         {TensorRef{x}, TensorRef{row_major(context, filter)}, call.argument("bias"), strides, padding,
                          height_and_width(call, "dilations", 1), flag(false), std::vector<Expr>{0, 0}, Expr(groups)}));
}

// The size of the result follows from the other numbers, and `input_size` has to be it.
std::vector<Operand> conv2d_transpose(const Call& call) {
  require_channels_first(call);
  refuse_offset(call);
  const std::vector<Expr> pads = even_pads(call);
  Context& context = call.context();
  const ir::ValueId x = call.value("x"), filter = call.value("filter");
  if (context.sizes(x).size() != 4 || context.sizes(filter).size() != 4) call.fail("its tensors have 4 dimensions");
  context.require_equal(context.sizes(x)[1], context.sizes(filter)[0]);
  const int64_t groups = groups_of(call, context.sizes(filter)[0]);
  require_bias(call, context.sizes(filter)[1] * Expr(groups));
  const ir::ValueId result = context.add(
      aten::convolution::op(),
      {TensorRef{x}, TensorRef{filter}, call.argument("bias"), height_and_width(call, "strides", 1), pads,
       height_and_width(call, "dilations", 1), flag(true), height_and_width(call, "output_padding", 0), Expr(groups)});
  const std::vector<Expr> sizes = context.sizes(result), wanted = call.numbers("input_size").elements;
  if (wanted.size() != sizes.size()) call.fail(cat("its input 'input_size' has 4 entries, got ", wanted.size()));
  for (size_t d = 0; d < sizes.size(); ++d) context.require_equal(sizes[d], wanted[d]);
  return one(result);
}

constexpr auto kProductRules = std::to_array<RuleRow>({
    {"BatchMatMul", batch_matmul},
    {"BatchMatMulV2", batch_matmul_v2},
    {"Conv2D", conv2d},
    {"Conv2DTranspose", conv2d_transpose},
    {"GroupedMatmul", grouped_matmul},
    {"MatMul", matmul},
    {"MatMulV2", matmul_v2},
});

}  // namespace

std::span<const RuleRow> product_rules() { return kProductRules; }

}  // namespace npugraph::ge
