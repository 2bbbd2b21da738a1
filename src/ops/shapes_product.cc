// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "ops/shapes.h"

namespace npugraph::ops::shapes {
namespace {

// [..., n, k] times [..., k, p] with the same leading sizes: dense row-major [..., n, p].
Types product(const Call& call, size_t left, size_t right, size_t rank) {
  const auto* a = call.tensor(left);
  const auto* b = call.tensor(right);
  if (a == nullptr || b == nullptr) return std::nullopt;
  if (a->sizes.size() != rank || b->sizes.size() != rank) {
    throw UserError(
        npugraph::cat(call.op.name, ": tensors of rank ", a->sizes.size(), " and ", b->sizes.size(), ", not ", rank));
  }
  const Expr difference = a->sizes[rank - 1] - b->sizes[rank - 2];
  if (difference.as_int() && !difference.is_int(0)) {
    throw UserError(
        npugraph::cat(call.op.name, ": inner sizes ", a->sizes[rank - 1].str(), " and ", b->sizes[rank - 2].str()));
  }
  auto sizes = a->sizes;
  sizes.back() = b->sizes.back();
  return contiguous(a->dtype, std::move(sizes), a->device);
}

}  // namespace

Types mm(const Call& call) { return product(call, 0, 1, 2); }
Types addmm(const Call& call) { return product(call, 1, 2, 2); }
Types bmm(const Call& call) { return product(call, 0, 1, 3); }
Types baddbmm(const Call& call) { return product(call, 1, 2, 3); }

Types mv(const Call& call) {
  const auto* a = call.tensor(0);
  if (a == nullptr || a->sizes.size() != 2) return std::nullopt;
  return contiguous(a->dtype, {a->sizes.front()}, a->device);
}

Types dot(const Call& call) {
  const auto* a = call.tensor(0);
  return a == nullptr ? std::nullopt : contiguous(a->dtype, {}, a->device);
}

Types embedding(const Call& call) {
  const auto* weight = call.tensor(0);
  const auto* indices = call.tensor(1);
  if (weight == nullptr || indices == nullptr || weight->sizes.size() != 2) return std::nullopt;
  auto sizes = indices->sizes;
  sizes.push_back(weight->sizes.back());
  return contiguous(weight->dtype, std::move(sizes), weight->device);
}

Types gguf_linear(const Call& call) {
  const auto* x = call.tensor(0);
  const auto* blocks = call.tensor(1);
  if (x == nullptr || blocks == nullptr || x->sizes.empty() || blocks->sizes.size() != 2) return std::nullopt;
  auto sizes = x->sizes;
  sizes.back() = blocks->sizes.front();
  return contiguous(x->dtype, std::move(sizes), x->device);
}

Types gather(const Call& call) {
  const auto* self = call.tensor(0);
  const auto* index = call.tensor(2);
  if (self == nullptr || index == nullptr) return std::nullopt;
  return contiguous(self->dtype, index->sizes, self->device);
}

}  // namespace npugraph::ops::shapes
