// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"

namespace npugraph::ops::shapes {
Types random_of_size(const Call& call) {
  auto sizes = call.integers(*call.find("size"));
  return sizes ? created(call, std::nullopt, std::move(*sizes)) : std::nullopt;
}

Types random_permutation(const Call& call) {
  const auto count = call.integer(0);
  return count ? created(call, std::nullopt, {*count}) : std::nullopt;
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
  // The argument itself if nothing is dropped.
  if (!*train || p->value().as_float() == 0) return only(*input);
  return only(copied(call, 0));
}

Types dropout_with_mask(const Call& call) { return both(copied(call, 0), copied(call, 0, DType::kBool)); }

Types dropout_with_byte_mask(const Call& call) { return both(copied(call, 0), copied(call, 0, DType::kU8)); }

Types two_in_rows(const Call& call) {
  const auto *first = call.tensor(0), *second = call.tensor(1);
  if (first == nullptr || second == nullptr) return std::nullopt;
  return both(dense(first->dtype, first->sizes, first->device), dense(second->dtype, second->sizes, second->device));
}

}  // namespace npugraph::ops::shapes
