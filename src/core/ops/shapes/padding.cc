// SPDX-License-Identifier: Apache-2.0
// Padding: every padded dimension grows by its pads before and after it.
#include <algorithm>

#include "base/error.h"
#include "ir/bounds.h"
#include "ops/shapes/joined.h"
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"
#include "tensor/shape.h"

namespace npugraph::ops::shapes {
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
