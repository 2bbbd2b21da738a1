// SPDX-License-Identifier: Apache-2.0
// Collectives, whose results are dense and row-major. Argument `ranks` names the members of the group.
#include "base/error.h"
#include "ops/shapes/shapes.h"

namespace npugraph::ops::shapes {
namespace {

// The tensors of argument 0, which is a list or one tensor.
std::vector<const ir::TensorType*> inputs_of(const Call& call) {
  const auto* refs = std::get_if<std::vector<TensorRef>>(&call.args[0]);
  if (refs == nullptr) return {call.tensor(0)};
  std::vector<const ir::TensorType*> inputs;
  for (const TensorRef ref : *refs) {
    const bool is_absent = ref.id == TensorRef::kAbsent;
    inputs.push_back(is_absent ? nullptr : std::get_if<ir::TensorType>(&call.graph.value(ref.id).type));
  }
  return inputs;
}

// A row-major result for each input, in which `resize` gives dimension 0 its size.
template <typename Resize>
Types resized(const Call& call, const Resize& resize) {
  std::vector<ir::Type> types;
  for (const auto* input : inputs_of(call)) {
    if (input == nullptr) return std::nullopt;
    auto sizes = input->sizes;
    if (sizes.empty()) throw UserError(npugraph::cat(call.op.name, ": a tensor without dimensions has no parts"));
    sizes[0] = resize(sizes[0]);
    types.emplace_back(dense(input->dtype, std::move(sizes), input->device));
  }
  return types;
}

std::optional<int64_t> ranks_of(const Call& call) {
  const auto ranks = call.known_integers(*call.find("ranks"));
  return ranks ? std::optional(static_cast<int64_t>(ranks->size())) : std::nullopt;
}

}  // namespace

Types reduced_by_all(const Call& call) {
  std::vector<ir::Type> types;
  for (const auto* input : inputs_of(call)) {
    if (input == nullptr) return std::nullopt;
    types.emplace_back(dense(input->dtype, input->sizes, input->device));
  }
  return types;
}

Types gathered(const Call& call) {
  const auto ranks = ranks_of(call);
  return ranks ? resized(call, [&](const Expr& size) { return size * Expr(*ranks); }) : std::nullopt;
}

Types scattered(const Call& call) {
  const auto ranks = ranks_of(call);
  if (!ranks || *ranks == 0) return std::nullopt;
  return resized(call, [&](const Expr& size) {
    if (size.as_int() && *size.as_int() % *ranks != 0) {
      throw UserError(npugraph::cat(call.op.name, ": size ", size.str(), " of dimension 0 for ", *ranks, " ranks"));
    }
    return Expr::make(ExprOp::kFloorDiv, {size, Expr(*ranks)});
  });
}

Types exchanged(const Call& call) {
  const auto parts = call.integers(1);
  if (!parts || parts->empty()) return std::nullopt;
  Expr sum = 0;
  for (const Expr& part : *parts) sum = sum + part;
  return resized(call, [&](const Expr&) { return sum; });
}

}  // namespace npugraph::ops::shapes
