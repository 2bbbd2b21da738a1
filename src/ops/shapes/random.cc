// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"

namespace npugraph::ops::shapes {
namespace {

template <typename T>
T named_or(const Call& call, std::string_view name, T otherwise) {
  const auto* value = std::get_if<T>(&call.args[*call.find(name)]);
  return value == nullptr ? otherwise : *value;
}

// A row-major tensor as asked for; nothing without an explicit dtype, which torch's default would give.
Types as_asked(const Call& call, std::vector<Expr> sizes) {
  const auto* dtype = std::get_if<DType>(&call.args[*call.find("dtype")]);
  if (dtype == nullptr || named_or(call, "layout", Layout::kStrided) != Layout::kStrided) return std::nullopt;
  return contiguous(*dtype, std::move(sizes), named_or(call, "device", Device{}));
}

// The type of a copy of argument `i` that keeps its order in memory, in this dtype.
std::optional<ir::Type> copy_of(const Call& call, size_t i, std::optional<DType> dtype = std::nullopt) {
  const auto* tensor = call.tensor(i);
  if (tensor == nullptr) return std::nullopt;
  auto strides = preserved_strides(call.graph, *tensor);
  if (!strides) return std::nullopt;
  return ir::TensorType{dtype.value_or(tensor->dtype), tensor->sizes, std::move(*strides), tensor->device};
}

Types both(std::optional<ir::Type> first, std::optional<ir::Type> second) {
  if (!first || !second) return std::nullopt;
  return std::vector<ir::Type>{std::move(*first), std::move(*second)};
}

}  // namespace

Types random_of_size(const Call& call) {
  auto sizes = call.integers(*call.find("size"));
  return sizes ? as_asked(call, std::move(*sizes)) : std::nullopt;
}

Types random_permutation(const Call& call) {
  const auto count = call.integer(0);
  return count ? as_asked(call, {*count}) : std::nullopt;
}

Types sample_like_parameters(const Call& call) {
  std::vector<const ir::TensorType*> parameters;
  for (size_t i = 0; i < 2; ++i) {
    if (const auto* tensor = call.tensor(i)) {
      parameters.push_back(tensor);
    } else if (std::holds_alternative<TensorRef>(call.args[i])) {
      return std::nullopt;
    }
  }
  auto sizes = broadcast(call.op.name, parameters);
  return sizes ? contiguous(parameters.front()->dtype, std::move(*sizes), parameters.front()->device) : std::nullopt;
}

Types multinomial(const Call& call) {
  const auto* weights = call.tensor(0);
  const auto count = call.integer(1);
  if (weights == nullptr || !count) return std::nullopt;
  if (weights->sizes.size() != 1 && weights->sizes.size() != 2) {
    throw UserError(npugraph::cat(call.op.name, ": weights of rank ", weights->sizes.size(), ", not 1 or 2"));
  }
  auto sizes = weights->sizes;
  sizes.back() = *count;
  return contiguous(DType::kI64, std::move(sizes), weights->device);
}

Types dropout(const Call& call) {
  const auto* input = call.tensor(0);
  const auto* p = std::get_if<Expr>(&call.args[1]);
  const auto train = call.boolean(2);
  if (input == nullptr || p == nullptr || !p->is_constant() || !train) return std::nullopt;
  // The argument itself where nothing is dropped.
  if (!*train || p->value().as_float() == 0) return std::vector<ir::Type>{*input};
  auto type = copy_of(call, 0);
  return type ? Types(std::vector<ir::Type>{std::move(*type)}) : std::nullopt;
}

Types dropout_with_mask(const Call& call) { return both(copy_of(call, 0), copy_of(call, 0, DType::kBool)); }

Types dropout_with_byte_mask(const Call& call) { return both(copy_of(call, 0), copy_of(call, 0, DType::kU8)); }

Types copies_of_two(const Call& call) { return both(copy_of(call, 0), copy_of(call, 1)); }

}  // namespace npugraph::ops::shapes
