// SPDX-License-Identifier: Apache-2.0
// Operators that read or write elements at places that other tensors name.
#include <array>

#include "base/error.h"
#include "ge/import/rules.h"
#include "ir/bounds.h"
#include "ops/operators.h"
#include "tensor/shape.h"

namespace npugraph::ge {

namespace {

// Elements along `axis` at the places of the indices, whose sizes take the place of the dimension.
std::vector<Operand> gather_along(const Call& call, int64_t axis) {
  if (call.attr_int("batch_dims") != 0) call.fail("its attribute 'batch_dims' has to be 0");
  Context& context = call.context();
  const ir::ValueId x = call.value("x");
  const std::vector<Expr> sizes = context.sizes(x);
  const size_t dim = dimension(call, axis, sizes.size());
  if (const Numbers* known = call.find_numbers("indices"); known != nullptr && known->is_scalar())
    return one(
        context.add(aten::select_int::op(), {TensorRef{x}, Expr(static_cast<int64_t>(dim)), known->elements.front()}));
  const ir::ValueId indices = call.value("indices");
  // There is code for rows of a table only if it is dense.
  const bool is_table = dim == 0 && sizes.size() == 2 && is_contiguous(sizes, context.type(x).strides);
  if (is_table) return one(context.add(aten::embedding::op(), {TensorRef{x}, TensorRef{indices}}));
  std::vector<TensorRef> places(dim);
  places.push_back({indices});
  return one(context.add(aten::index_Tensor::op(), {TensorRef{x}, places}));
}

std::vector<Operand> gather_v2(const Call& call) { return gather_along(call, call.integer("axis")); }
std::vector<Operand> gather(const Call& call) { return gather_along(call, 0); }

// Indices say where each element of the result comes from along `dim`. In other dimensions they are at the places of
// the elements of `x`.
void require_places_in(const Call& call, ir::ValueId x, ir::ValueId index, size_t dim) {
  Context& context = call.context();
  const std::vector<Expr>&of_x = context.sizes(x), &of_index = context.sizes(index);
  if (of_x.size() != of_index.size())
    call.fail(cat("its indices have as many dimensions as its data, got ", of_index.size(), " and ", of_x.size()));
  for (size_t d = 0; d < of_x.size(); ++d) {
    const bool is_inside = ir::is_nonnegative(of_x[d] - of_index[d], context.graph().symbols);
    if (d != dim && !is_inside) context.require_equal(of_index[d], of_x[d]);
  }
}

std::vector<Operand> gather_elements(const Call& call) {
  const ir::ValueId x = call.value("x"), index = call.value("index");
  const size_t dim = dimension(call, call.attr_int("dim"), call.context().sizes(x).size());
  require_places_in(call, x, index, dim);
  return one(call.context().add(aten::gather::op(), {TensorRef{x}, Expr(static_cast<int64_t>(dim)), TensorRef{index}}));
}

// A list of the indices of each dimension, where `mask` has a 1; TensorRef() for the other dimensions.
std::vector<TensorRef> places(const Call& call, const std::vector<int64_t>& mask) {
  const std::vector<Operand*> indices = call.list("indices");
  std::vector<TensorRef> places;
  size_t next = 0;
  for (const int64_t is_indexed : mask) {
    if (is_indexed != 0 && next == indices.size()) call.fail("it has fewer indices than indexed dimensions");
    places.push_back(is_indexed == 0 ? TensorRef{} : TensorRef{call.context().value_of(*indices[next++])});
  }
  if (next != indices.size()) call.fail(cat("it has ", indices.size(), " indices for ", next, " dimensions"));
  return places;
}

std::vector<Operand> index_by_tensor(const Call& call) {
  std::vector<int64_t> mask = call.attr_ints("indices_mask");
  if (mask.empty()) mask.assign(call.list("indices").size(), 1);
  return one(call.context().add(aten::index_Tensor::op(), {TensorRef{call.value("x")}, places(call, mask)}));
}

// Sizes of the value are those of what the indices select, or 1. A gather that nobody reads, which the compiler drops,
// tells these sizes.
void require_selected(Context& context, TensorRef x, const std::vector<TensorRef>& at, TensorRef value) {
  const auto is_known = [](const Expr& size) { return size.as_int().has_value(); };
  if (std::ranges::all_of(context.sizes(value.id), is_known) && std::ranges::all_of(context.sizes(x.id), is_known))
    return;
  const ir::ValueId selected = context.add(aten::index_Tensor::op(), {x, at});
  context.require_broadcast(context.sizes(selected), context.sizes(value.id));
}

// Writes `value` at the places of the indices.
std::vector<Operand> index_put(const Call& call) {
  Context& context = call.context();
  const TensorRef x{call.value("x")}, value{call.value("value")};
  const std::vector<TensorRef> at = places(call, call.integers("indexed_sizes"));
  const bool accumulates = call.attr_bool("accumulate");
  if (at.size() > context.sizes(x.id).size())
    call.fail(
        cat("its input 'indexed_sizes' has ", at.size(), " entries for ", context.sizes(x.id).size(), " dimensions"));
  require_selected(context, x, at, value);
  return one(context.add(aten::index_put::op(), {x, at, value, flag(accumulates)}));
}

// Writes updates at the places along `axis` that the indices name, in their order, or adds them there.
std::vector<Operand> scatter_elements(const Call& call) {
  Context& context = call.context();
  const ir::ValueId data = call.value("data"), updates = call.value("updates");
  ir::ValueId indices = call.value("indices");
  const size_t dim = dimension(call, call.attr_int("axis"), context.sizes(data).size());
  require_places_in(call, data, indices, dim);
  if (context.sizes(updates) != context.sizes(indices)) call.fail("its updates have the sizes of its indices");
  if (context.type(indices).dtype != DType::kI64)
    indices = context.add(aten::_to_copy::op(), {TensorRef{indices}, DType::kI64});
  const std::vector<Attr> args = {TensorRef{data}, Expr(static_cast<int64_t>(dim)), TensorRef{indices},
                                  TensorRef{updates}};
  const std::string reduction = call.attr_string("reduction");
  if (reduction == "none") return one(context.add(aten::scatter_src::op(), args));
  if (reduction == "add") return one(context.add(aten::scatter_add::op(), args));
  call.fail(cat("its attribute 'reduction' is 'none' or 'add', got '", reduction, "'"));
}

// The gradient of a table from those of its rows that were read; f32 for half types, because many may be added.
std::vector<Operand> embedding_grad(const Call& call) {
  Context& context = call.context();
  const ir::ValueId indices = call.value("indices");
  ir::ValueId grad = call.value("grad");
  const DType dtype = context.type(grad).dtype;
  std::vector<Expr> sizes = context.sizes(grad);
  if (sizes.empty()) call.fail("its gradient has at least 1 dimension");
  sizes.pop_back();
  if (sizes.size() != context.sizes(indices).size()) call.fail("its gradient has a row for each index");
  for (size_t d = 0; d < sizes.size(); ++d) context.require_equal(sizes[d], context.sizes(indices)[d]);
  if (size_of(dtype) == 2) grad = context.add(aten::_to_copy::op(), {TensorRef{grad}, DType::kF32});
  const ir::ValueId table =
      context.add(aten::embedding_dense_backward::op(),
                  {TensorRef{grad}, TensorRef{indices}, Expr(call.attr_int("num_weights")),
                   Expr(call.attr_int("padding_idx")), flag(call.attr_bool("scale_grad_by_freq"))});
  return one(size_of(dtype) == 2 ? context.add(aten::_to_copy::op(), {TensorRef{table}, dtype}) : table);
}

// Adds alpha times the updates at the places along `axis` that the indices name.
std::vector<Operand> index_add(const Call& call) {
  Context& context = call.context();
  const ir::ValueId x = call.value("var");
  ir::ValueId indices = call.value("indices"), updates = call.value("updates");
  const size_t dim = dimension(call, call.attr_int("axis"), context.sizes(x).size());
  const std::vector<Expr> sizes = context.sizes(updates);
  if (sizes.size() != context.sizes(x).size() || context.sizes(indices).size() != 1)
    call.fail("its updates have the dimensions of 'var', and its indices one");
  for (size_t d = 0; d < sizes.size(); ++d)
    context.require_equal(sizes[d], d == dim ? context.sizes(indices)[0] : context.sizes(x)[d]);
  if (call.has("alpha")) {
    const Numbers* alpha = call.find_numbers("alpha");
    const Attr factor =
        alpha != nullptr && alpha->is_scalar() ? Attr(alpha->elements.front()) : Attr(TensorRef{call.value("alpha")});
    updates = context.add(aten::mul_Tensor::op(), {TensorRef{updates}, factor});
  }
  if (context.type(indices).dtype != DType::kI64)
    indices = context.add(aten::_to_copy::op(), {TensorRef{indices}, DType::kI64});
  std::vector<Expr> row(sizes.size(), Expr(1));
  row[dim] = sizes[dim];
  indices = context.add(aten::expand::op(), {TensorRef{reshape(context, indices, row)}, sizes});
  return one(context.add(aten::scatter_add::op(),
                         {TensorRef{x}, Expr(static_cast<int64_t>(dim)), TensorRef{indices}, TensorRef{updates}}));
}

constexpr auto kIndexRules = std::to_array<RuleRow>({
    {"EmbeddingDenseGrad", embedding_grad},
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"GatherV2", gather_v2},
    {"IndexByTensor", index_by_tensor},
    {"IndexPutV2", index_put},
    {"InplaceIndexAdd", index_add},
    {"ScatterElements", scatter_elements},
});

}  // namespace

std::span<const RuleRow> index_rules() { return kIndexRules; }

}  // namespace npugraph::ge
