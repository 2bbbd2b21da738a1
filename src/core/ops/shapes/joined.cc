// SPDX-License-Identifier: Apache-2.0
// Concatenations of tensors.
#include "ops/shapes/joined.h"

#include <algorithm>

#include "base/error.h"
#include "ir/bounds.h"
#include "ops/shapes/promote.h"
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"
#include "ops/views/views.h"
#include "tensor/shape.h"

namespace npugraph::ops {

namespace {

using TensorTypes = std::vector<const ir::TensorType*>;

// Channels last only if torch suggests it for all tensors.
std::optional<MemoryFormat> common_format(const Call& call, const TensorTypes& tensors) {
  std::optional<MemoryFormat> common;
  bool open = false;
  for (const auto* tensor : tensors) {
    const auto format = suggested_format(call, tensor->sizes, tensor->strides);
    open = open || !format;
    if (format == MemoryFormat::kContiguous || (common && format && format != common)) return MemoryFormat::kContiguous;
    if (format) common = format;
  }
  return open ? std::nullopt : common;
}

// torch leaves out tensors of sizes [0], which fit tensors of any sizes.
TensorTypes without_empty_lists(const TensorTypes& tensors) {
  TensorTypes rest;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(rest),
               [](const auto* tensor) { return tensor->sizes.size() != 1 || !tensor->sizes.front().is_int(0); });
  return rest;
}

// Whether the tensor is one-dimensional and may be empty at run time.
bool may_be_left_out(const ir::TensorType* tensor) {
  return tensor->sizes.size() == 1 && !tensor->sizes.front().as_int();
}

bool have_one_rank(const TensorTypes& tensors) {
  const size_t rank = tensors.front()->sizes.size();
  return std::all_of(tensors.begin(), tensors.end(), [&](const auto* tensor) { return tensor->sizes.size() == rank; });
}

// Adds `tensor` to `sizes`, of the same rank, along `dim`.
void append_sizes(const Call& call, std::vector<Expr>& sizes, const ir::TensorType& tensor, size_t dim) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto difference = (tensor.sizes[i] - sizes[i]).as_int();
    if (i == dim) {
      sizes[i] = sizes[i] + tensor.sizes[i];
    } else if (difference && *difference != 0) {
      throw UserError(
          npugraph::cat(call.op.name, ": sizes ", sizes[i].str(), " and ", tensor.sizes[i].str(), " in dimension ", i));
    }
  }
}

// The tensors concatenated along a new last dimension.
std::optional<ir::TensorType> joined_columns(const Call& call, const TensorTypes& tensors) {
  std::vector<ir::TensorType> columns;
  for (const auto* tensor : tensors) {
    columns.push_back(*tensor);
    columns.back().sizes.emplace_back(1);
    columns.back().strides.emplace_back(1);
  }
  TensorTypes pointers;
  for (const auto& column : columns) pointers.push_back(&column);
  return joined(call, pointers, -1);
}

// Sizes of the tensor as a matrix; a one-dimensional tensor becomes one row.
std::pair<Expr, Expr> matrix_sizes(const Call& call, const ir::TensorType& tensor) {
  const size_t rank = tensor.sizes.size();
  if (rank > 2) throw UserError(npugraph::cat(call.op.name, ": a tensor of rank ", rank, "; at most 2 is allowed"));
  return {rank == 2 ? tensor.sizes[0] : Expr(1), rank == 0 ? Expr(1) : tensor.sizes.back()};
}

// `type`, extended to `rank` by leading dimensions of size 1, as a view of rank 2 * `rank`: each dimension becomes a
// pair of a dimension of size 1 and itself, in this order if `to_last`, else in the reverse order.
std::optional<ir::TensorType> spread(const ir::TensorType& type, size_t rank, bool to_last) {
  ir::TensorType result = type;
  result.sizes.assign(2 * rank, Expr(1));
  const size_t added = rank - type.sizes.size();
  for (size_t i = 0; i < type.sizes.size(); ++i) result.sizes[2 * (added + i) + (to_last ? 1 : 0)] = type.sizes[i];
  auto strides = views::reshape_strides(type, result.sizes);
  if (!strides) return std::nullopt;
  result.strides = std::move(*strides);
  return result;
}

}  // namespace

std::optional<TensorTypes> tensor_list(const Call& call, size_t i) {
  const auto* refs = std::get_if<std::vector<TensorRef>>(&call.args[i]);
  if (refs == nullptr || refs->empty()) return std::nullopt;
  TensorTypes types;
  for (const TensorRef ref : *refs) {
    if (ref.id == TensorRef::kAbsent) return std::nullopt;
    types.push_back(std::get_if<ir::TensorType>(&call.graph.value(ref.id).type));
    if (types.back() == nullptr) return std::nullopt;
  }
  return types;
}

std::optional<ir::TensorType> joined(const Call& call, const TensorTypes& tensors, int64_t dim) {
  TensorTypes parts = without_empty_lists(tensors);
  if (parts.empty()) parts = {tensors.front()};
  const auto& first = *parts.front();
  if (!have_one_rank(parts)) {
    if (std::any_of(parts.begin(), parts.end(), may_be_left_out)) return std::nullopt;
    throw UserError(cat(call.op.name, ": tensors of different ranks"));
  }
  if (first.sizes.empty()) throw UserError(cat(call.op.name, ": a tensor without dimensions"));
  const int64_t index = normalise_dim(call, dim, static_cast<int64_t>(first.sizes.size()));
  auto sizes = first.sizes;
  sizes[index] = 0;
  for (const auto* part : parts) append_sizes(call, sizes, *part, index);
  const auto dtype = result_type(tensors);
  const auto format = common_format(call, tensors);
  auto strides = format ? format_strides(sizes, *format) : std::nullopt;
  if (!dtype || !strides) return std::nullopt;
  return ir::TensorType{*dtype, std::move(sizes), std::move(*strides), first.device};
}

namespace shapes {

Types cat(const Call& call) {
  const auto tensors = tensor_list(call, 0);
  const auto dim = call.known_integer(1);
  return tensors && dim ? only(joined(call, *tensors, *dim)) : std::nullopt;
}

// Like torch: concatenates along `dim` and then splits it, or concatenates along a new last dimension.
Types stack(const Call& call) {
  const auto tensors = tensor_list(call, 0);
  const auto dim = call.known_integer(1);
  if (!tensors || !dim) return std::nullopt;
  const auto rank = static_cast<int64_t>(tensors->front()->sizes.size());
  const auto index = normalise_dim(call, *dim, rank + 1);
  if (index == rank) return only(joined_columns(call, *tensors));
  auto result = joined(call, *tensors, index);
  if (!result) return std::nullopt;
  auto sizes = tensors->front()->sizes;
  sizes.insert(sizes.begin() + index, Expr(static_cast<int64_t>(tensors->size())));
  auto strides = views::reshape_strides(*result, sizes);
  if (!strides) return std::nullopt;
  return only(ir::TensorType{result->dtype, std::move(sizes), std::move(*strides), result->device});
}

Types block_diag(const Call& call) {
  const auto tensors = tensor_list(call, 0);
  const auto dtype = tensors ? result_type(*tensors) : std::nullopt;
  if (!dtype) return std::nullopt;
  Expr rows = 0;
  Expr columns = 0;
  for (const auto* tensor : *tensors) {
    const auto [height, width] = matrix_sizes(call, *tensor);
    rows = rows + height;
    columns = columns + width;
  }
  return contiguous(*dtype, {rows, columns}, tensors->front()->device);
}

Types cartesian_product(const Call& call) {
  const auto tensors = tensor_list(call, 0);
  if (!tensors) return std::nullopt;
  Expr count = 1;
  for (const auto* tensor : *tensors) {
    if (tensor->sizes.size() != 1) {
      throw UserError(npugraph::cat(call.op.name, ": a tensor of rank ", tensor->sizes.size(), "; it must be 1"));
    }
    count = count * tensor->sizes.front();
  }
  const auto& first = *tensors->front();
  if (tensors->size() == 1) return only(first);
  return contiguous(first.dtype, {count, static_cast<int64_t>(tensors->size())}, first.device);
}

// Like torch: an elementwise product of twice the rank, whose pairs of dimensions are then merged.
Types kron(const Call& call) {
  const auto* self = call.tensor(0);
  const auto* other = call.tensor(1);
  const auto dtype = self != nullptr && other != nullptr ? ops::promote(self->dtype, other->dtype) : std::nullopt;
  if (!dtype) return std::nullopt;
  const size_t rank = std::max(self->sizes.size(), other->sizes.size());
  const auto left = spread(*self, rank, false);
  const auto right = spread(*other, rank, true);
  if (!left || !right) return std::nullopt;
  ir::TensorType product{*dtype, {}, {}, self->device};
  std::vector<Expr> sizes;
  for (size_t i = 0; i < 2 * rank; ++i) product.sizes.push_back(left->sizes[i] * right->sizes[i]);
  for (size_t i = 0; i < rank; ++i) sizes.push_back(product.sizes[2 * i] * product.sizes[2 * i + 1]);
  auto strides = elementwise_strides(call, product.sizes, {&*left, &*right});
  if (!strides) return std::nullopt;
  product.strides = std::move(*strides);
  strides = views::reshape_strides(product, sizes);
  if (!strides) return std::nullopt;
  return only(ir::TensorType{*dtype, std::move(sizes), std::move(*strides), self->device});
}

}  // namespace shapes

}  // namespace npugraph::ops

namespace npugraph::ops::shapes {

// Padding: every padded dimension grows by its pads before and after it.

namespace {

// `pads` holds two numbers for each dimension, before and after it, starting with the last dimension.
std::vector<Expr> padded_sizes(const Call& call, std::vector<Expr> sizes, const std::vector<Expr>& pads) {
  if (pads.size() % 2 != 0 || pads.size() > 2 * sizes.size()) {
    throw UserError(npugraph::cat(call.op.name, ": ", pads.size(), " pads for a tensor of rank ", sizes.size()));
  }
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    Expr& size = sizes[sizes.size() - 1 - i];
    const Expr padded = size + pads[2 * i] + pads[2 * i + 1];
    if (ir::is_nonnegative(Expr(-1) - padded, call.graph.symbols)) {
      throw UserError(npugraph::cat(call.op.name, ": pads ", pads[2 * i].str(), " and ", pads[2 * i + 1].str(),
                                    " for size ", size.str()));
    }
    size = padded;
  }
  return sizes;
}

// Whether no pad adds elements; nullopt if symbols leave it open.
std::optional<bool> only_cuts(const ir::Graph& graph, const std::vector<Expr>& pads) {
  const auto cuts = [&](const Expr& pad) { return ir::is_nonnegative(Expr(0) - pad, graph.symbols); };
  const auto adds = [&](const Expr& pad) { return ir::is_nonnegative(pad - 1, graph.symbols); };
  if (std::any_of(pads.begin(), pads.end(), adds)) return false;
  return std::all_of(pads.begin(), pads.end(), cuts) ? std::optional(true) : std::nullopt;
}

// Strides of a result of `sizes`: only a batch, with two dimensions before those that are padded, can be channels last.
std::optional<std::vector<Expr>> batch_strides(const Call& call, const ir::TensorType& self, size_t padded,
                                               const std::vector<Expr>& sizes) {
  const size_t rank = self.sizes.size();
  if (rank != padded + 1 && rank != padded + 2) {
    throw UserError(npugraph::cat(call.op.name, ": a tensor of rank ", rank, "; ", padded + 1, " and ", padded + 2,
                                  " are allowed"));
  }
  return rank == padded + 2 ? suggested_strides(call, self, sizes) : contiguous_strides(sizes);
}

// The greatest first size; nullopt if symbols leave open which one that is, since torch then guards on it.
std::optional<Expr> longest_of(const Call& call, const std::vector<const ir::TensorType*>& sequences) {
  for (const auto* sequence : sequences) {
    if (sequence->sizes.empty()) throw UserError(npugraph::cat(call.op.name, ": a tensor without dimensions"));
  }
  for (const auto* candidate : sequences) {
    const Expr& length = candidate->sizes.front();
    const auto is_shorter = [&](const auto* other) {
      return ir::is_nonnegative(length - other->sizes.front(), call.graph.symbols);
    };
    if (std::all_of(sequences.begin(), sequences.end(), is_shorter)) return length;
  }
  return std::nullopt;
}

}  // namespace

Types constant_pad(const Call& call) {
  const auto* self = call.tensor(0);
  const auto pads = call.integers(1);
  if (self == nullptr || !pads) return std::nullopt;
  auto sizes = padded_sizes(call, self->sizes, *pads);
  auto strides = suggested_strides(call, *self, sizes);
  const auto cut = only_cuts(call.graph, *pads);
  if (cut == false) return like(*self, std::move(sizes), std::move(strides));
  // If pads only cut, the remaining part is copied as clone() copies it.
  auto cloned = preserved_strides(call, ir::TensorType{self->dtype, sizes, self->strides, self->device});
  if (!cut && cloned != strides) return std::nullopt;
  return like(*self, std::move(sizes), std::move(cloned));
}

Types pad(const Call& call) {
  const auto* self = call.tensor(0);
  const auto pads = call.integers(1);
  if (self == nullptr || !pads) return std::nullopt;
  auto sizes = padded_sizes(call, self->sizes, *pads);
  auto strides = batch_strides(call, *self, pads->size() / 2, sizes);
  return like(*self, std::move(sizes), std::move(strides));
}

Types pad_backward(const Call& call) {
  const auto* self = call.tensor(1);
  const auto pads = call.integers(2);
  if (self == nullptr || !pads) return std::nullopt;
  return like(*self, self->sizes, batch_strides(call, *self, pads->size() / 2, self->sizes));
}

Types pad_sequence(const Call& call) {
  const auto sequences = tensor_list(call, 0);
  const auto batch_first = call.boolean(1);
  if (!sequences || !batch_first) return std::nullopt;
  const auto longest = longest_of(call, *sequences);
  if (!longest) return std::nullopt;
  const auto& first = *sequences->front();
  auto sizes = first.sizes;
  sizes.front() = *longest;
  sizes.insert(sizes.begin() + (*batch_first ? 0 : 1), Expr(static_cast<int64_t>(sequences->size())));
  return contiguous(first.dtype, std::move(sizes), first.device);
}

}  // namespace npugraph::ops::shapes
