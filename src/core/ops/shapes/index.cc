// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ops/shapes/promote.h"
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"
#include "ops/views/views.h"
#include "tensor/shape.h"

namespace npugraph::ops::shapes {
namespace {

// The index tensor of each dimension; nullopt for a dimension that is kept.
using Indices = std::vector<std::optional<ir::TensorType>>;

// The number of true elements of the mask: the only size that the call defines.
std::optional<Expr> count_of_mask(const Call& call) {
  if (call.defines.size() != 1) return std::nullopt;
  return call.defined_size(call.defines.front().result, call.defines.front().dim);
}

// One entry for each dimension of `self`. A mask stands for one-dimensional index tensors, one for each of its
// dimensions. nullopt if there are several masks, whose counts have to be equal, or an index is of an unusual type.
std::optional<Indices> expand_indices(const Call& call, const ir::TensorType& self) {
  const auto* refs = std::get_if<std::vector<TensorRef>>(&call.args[1]);
  if (refs == nullptr) return std::nullopt;
  Indices indices;
  size_t masks = 0;
  for (const TensorRef ref : *refs) {
    if (ref.id == TensorRef::kAbsent) {
      indices.emplace_back();
      continue;
    }
    const auto* type = std::get_if<ir::TensorType>(&call.graph.value(ref.id).type);
    if (type == nullptr) return std::nullopt;
    if (type->dtype == DType::kI64 || type->dtype == DType::kI32) {
      indices.emplace_back(*type);
      continue;
    }
    const auto count = count_of_mask(call);
    if ((type->dtype != DType::kBool && type->dtype != DType::kU8) || ++masks > 1 || !count) return std::nullopt;
    indices.insert(indices.end(), type->sizes.size(), dense(DType::kI64, {*count}, type->device));
  }
  if (indices.size() > self.sizes.size()) {
    throw UserError(
        npugraph::cat(call.op.name, ": ", indices.size(), " indices for a tensor of rank ", self.sizes.size()));
  }
  indices.resize(self.sizes.size());
  return indices;
}

bool is_adjacent(const Indices& indices) {
  const auto given = [](const auto& index) { return index.has_value(); };
  const auto first = std::find_if(indices.begin(), indices.end(), given);
  const auto last = std::find_if(indices.rbegin(), indices.rend(), given).base();
  return std::all_of(first, std::max(first, last), given);
}

// Moves the indexed dimensions to the front, as torch does if they are not adjacent.
void move_to_front(ir::TensorType& self, Indices& indices) {
  std::vector<size_t> order(indices.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_partition(order.begin(), order.end(), [&](size_t i) { return indices[i].has_value(); });
  const ir::TensorType before = self;
  const Indices old = std::exchange(indices, {});
  for (size_t i = 0; i < order.size(); ++i) {
    self.sizes[i] = before.sizes[order[i]];
    self.strides[i] = before.strides[order[i]];
    indices.push_back(old[order[i]]);
  }
}

// The index as the iteration takes it: broadcast, and viewed with dimensions of size 1 before and after its own. The
// view gives these dimensions strides, which count where the index orders the dimensions of the result. nullopt if
// symbols leave them open.
std::optional<ir::TensorType> between_ones(const ir::TensorType& index, const std::vector<Expr>& index_sizes,
                                           size_t before, size_t after) {
  const ir::TensorType given{index.dtype, index_sizes, broadcast_strides(index, index_sizes), index.device};
  std::vector<Expr> sizes(before, 1);
  sizes.insert(sizes.end(), index_sizes.begin(), index_sizes.end());
  sizes.resize(sizes.size() + after, 1);
  auto strides = views::reshape_strides(given, sizes);
  if (!strides) return std::nullopt;
  return ir::TensorType{index.dtype, std::move(sizes), std::move(*strides), index.device};
}

// The operands of the iteration that computes `self` at `indices`, which are adjacent: first `self`, with the indexed
// dimensions replaced by those of the indices, then the indices. nullopt if symbols leave a stride open.
std::optional<std::vector<ir::TensorType>> operands_of_index(const Indices& indices, const ir::TensorType& self,
                                                             const std::vector<Expr>& index_sizes) {
  std::vector<ir::TensorType> operands{ir::TensorType{self.dtype, {}, {}, self.device}};
  size_t after = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i]) {
      if (operands.size() == 1) {
        operands.front().sizes.insert(operands.front().sizes.end(), index_sizes.begin(), index_sizes.end());
        operands.front().strides.resize(operands.front().sizes.size(), 0);
      }
      operands.push_back(*indices[i]);
      continue;
    }
    operands.front().sizes.push_back(self.sizes[i]);
    operands.front().strides.push_back(self.strides[i]);
    if (operands.size() > 1) ++after;
  }
  const size_t before = operands.front().sizes.size() - index_sizes.size() - after;
  for (auto operand = operands.begin() + 1; operand != operands.end(); ++operand) {
    auto viewed = between_ones(*operand, index_sizes, before, after);
    if (!viewed) return std::nullopt;
    *operand = std::move(*viewed);
  }
  return operands;
}

std::optional<std::vector<Expr>> broadcast_indices(const Call& call, const Indices& indices) {
  std::vector<const ir::TensorType*> given;
  for (const auto& index : indices) {
    if (index) given.push_back(&*index);
  }
  return given.empty() ? std::nullopt : broadcast(call.op.name, given);
}

// Arguments of embedding_bag.
struct Bags {
  const ir::TensorType* weight = nullptr;
  const ir::TensorType* indices = nullptr;
  const ir::TensorType* offsets = nullptr;
  int64_t mode = 0;
  Expr count;            // bags
  bool is_fast = false;  // the sum goes through a faster kernel, which needs no map from indices to bags
  DType dtype = DType::kI64;
};

constexpr int64_t kSumOfBag = 0;
constexpr int64_t kMaxOfBag = 2;

std::optional<Bags> bags_of(const Call& call) {
  Bags bags{.weight = call.tensor(0), .indices = call.tensor(1), .offsets = call.tensor(2)};
  const auto mode = call.known_integer(4);
  const auto includes_last = call.boolean(7);
  const auto padding = call.known_integer(8);
  if (bags.weight == nullptr || bags.indices == nullptr || bags.offsets == nullptr || !mode || !includes_last ||
      !padding || !runs_on_cpu(bags.weight->device) || bags.weight->sizes.size() != 2 ||
      bags.indices->sizes.size() != 1 || bags.offsets->sizes.size() != 1) {
    return std::nullopt;
  }
  const auto dtype = ops::promote(bags.indices->dtype, bags.offsets->dtype);
  if (!dtype) return std::nullopt;
  const auto* scale = call.tensor(6);
  const DType element = bags.weight->dtype;
  bags.is_fast = (element == DType::kF32 || element == DType::kF16 || element == DType::kBF16) &&
                 bags.weight->strides[1].is_int(1) && *padding < 0 &&
                 (scale == nullptr || scale->strides.front().is_int(1));
  bags.mode = *mode;
  bags.dtype = *dtype;
  bags.count = bags.offsets->sizes.front() - Expr(*includes_last ? 1 : 0);
  return bags;
}

// `bag_size`: number of bag sizes that are returned.
Types embedding_bag(const Bags& bags, const Expr& bag_size) {
  const Device& device = bags.weight->device;
  const Expr columns = bags.weight->sizes[1];
  const bool has_map = bags.mode != kSumOfBag || !bags.is_fast;
  const auto positions = bags.mode == kMaxOfBag ? std::vector<Expr>{bags.count, columns} : std::vector<Expr>{bag_size};
  return std::vector<ir::Type>{dense(bags.weight->dtype, {bags.count, columns}, device),
                               dense(bags.dtype, {has_map ? bags.indices->sizes.front() : Expr(0)}, device),
                               dense(bags.dtype, {bag_size}, device), dense(bags.dtype, positions, device)};
}

}  // namespace

Types index(const Call& call) {
  const auto* argument = call.tensor(0);
  if (argument == nullptr) return std::nullopt;
  auto indices = expand_indices(call, *argument);
  if (!indices) return std::nullopt;
  const auto index_sizes = broadcast_indices(call, *indices);
  if (!index_sizes) return std::nullopt;
  ir::TensorType self = *argument;
  if (!is_adjacent(*indices)) move_to_front(self, *indices);
  const auto operands = operands_of_index(*indices, self, *index_sizes);
  if (!operands) return std::nullopt;
  std::vector<const ir::TensorType*> pointers;
  pointers.reserve(operands->size());
  for (const auto& operand : *operands) pointers.push_back(&operand);
  const auto& sizes = operands->front().sizes;
  auto strides = elementwise_strides(call, sizes, pointers);
  if (!strides) return std::nullopt;
  return std::vector<ir::Type>{ir::TensorType{self.dtype, sizes, std::move(*strides), self.device}};
}

Types index_select(const Call& call) {
  const auto* self = call.tensor(0);
  const auto dim = call.known_integer(1);
  const auto* index = call.tensor(2);
  if (self == nullptr || !dim || index == nullptr) return std::nullopt;
  auto sizes = self->sizes;
  const auto at = normalise_dim(call, *dim, static_cast<int64_t>(sizes.size()));
  if (!sizes.empty()) sizes[at] = numel(index->sizes);
  return contiguous(self->dtype, std::move(sizes), self->device);
}

Types masked_scatter(const Call& call) {
  const auto* self = call.tensor(0);
  const auto* mask = call.tensor(1);
  if (self == nullptr || mask == nullptr) return std::nullopt;
  auto sizes = broadcast(call.op.name, {self, mask});
  return sizes ? contiguous(self->dtype, std::move(*sizes), self->device) : std::nullopt;
}

Types repeat_interleave(const Call& call) {
  const auto* self = call.tensor(0);
  const auto repeats = call.integer(1);
  auto output_size = call.integer(3);
  if (self == nullptr) return std::nullopt;
  auto sizes = call.is_none(2) ? std::vector<Expr>{numel(self->sizes)} : self->sizes;
  const auto dim = call.is_none(2) ? int64_t{0} : call.known_integer(2);
  if (!dim || sizes.empty()) return std::nullopt;
  const auto at = normalise_dim(call, *dim, static_cast<int64_t>(sizes.size()));
  if (repeats) output_size = sizes[at] * *repeats;
  if (!output_size) output_size = call.defined_size(0, static_cast<int32_t>(at));
  if (!output_size) return std::nullopt;
  sizes[at] = *output_size;
  return contiguous(self->dtype, std::move(sizes), self->device);
}

Types repeated_positions(const Call& call) {
  const auto* repeats = call.tensor(0);
  const auto size = call.is_none(1) ? call.defined_size(0, 0) : call.integer(1);
  if (repeats == nullptr || !size) return std::nullopt;
  return contiguous(repeats->dtype, {*size}, repeats->device);
}

Types one_hot(const Call& call) {
  const auto* self = call.tensor(0);
  const auto asked = call.integer(1);
  if (self == nullptr || !asked) return std::nullopt;
  const auto classes =
      asked->is_int(-1) ? call.defined_size(0, static_cast<int32_t>(self->sizes.size())) : std::optional(*asked);
  if (!classes) return std::nullopt;
  auto sizes = self->sizes;
  sizes.push_back(*classes);
  return contiguous(DType::kI64, std::move(sizes), self->device);
}

Types embedding_bag(const Call& call) {
  const auto bags = bags_of(call);
  return bags ? embedding_bag(*bags, bags->count) : std::nullopt;
}

Types embedding_bag_forward_only(const Call& call) {
  const auto bags = bags_of(call);
  if (!bags) return std::nullopt;
  return embedding_bag(*bags, bags->mode == kSumOfBag ? bags->offsets->sizes.front() : bags->count);
}

Types embedding_backward(const Call& call) {
  const auto* grad = call.tensor(0);
  const auto rows = call.integer(2);
  if (grad == nullptr || grad->sizes.empty() || !rows) return std::nullopt;
  return contiguous(grad->dtype, {*rows, grad->sizes.back()}, grad->device);
}

}  // namespace npugraph::ops::shapes
