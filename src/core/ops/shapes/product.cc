// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "ops/shapes/promote.h"
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"
#include "tensor/shape.h"

namespace npugraph::ops::shapes {
namespace {

void require_equal(const Call& call, const Expr& a, const Expr& b) {
  const Expr difference = a - b;
  if (!difference.as_int() || difference.is_int(0)) return;
  throw UserError(npugraph::cat(call.op.name, ": inner sizes ", a.str(), " and ", b.str()));
}

// [..., n, k] times [..., k, p] with the same leading sizes: dense row-major [..., n, p].
Types product(const Call& call, size_t left, size_t right, size_t rank) {
  const auto* a = call.tensor(left);
  const auto* b = call.tensor(right);
  if (a == nullptr || b == nullptr) return std::nullopt;
  if (a->sizes.size() != rank || b->sizes.size() != rank) {
    throw UserError(
        npugraph::cat(call.op.name, ": tensors of rank ", a->sizes.size(), " and ", b->sizes.size(), ", not ", rank));
  }
  require_equal(call, a->sizes[rank - 1], b->sizes[rank - 2]);
  auto sizes = a->sizes;
  sizes.back() = b->sizes.back();
  return contiguous(a->dtype, std::move(sizes), a->device);
}

// Argument `matrix` times a vector.
Types matrix_by_vector(const Call& call, size_t matrix) {
  const auto* a = call.tensor(matrix);
  if (a == nullptr || a->sizes.size() != 2) return std::nullopt;
  return contiguous(a->dtype, {a->sizes.front()}, a->device);
}

// The same types with this element type instead.
Types in_dtype(Types types, DType dtype) {
  for (ir::Type& type : *types) std::get<ir::TensorType>(type).dtype = dtype;
  return types;
}

// For each of `rank` dimensions, whether list argument `name` names it.
std::optional<std::vector<bool>> named_dims(const Call& call, std::string_view name, size_t rank) {
  const auto dims = call.known_integers(*call.find(name));
  if (!dims) return std::nullopt;
  std::vector<bool> named(rank, false);
  for (const int64_t dim : *dims) named[normalise_dim(call, dim, static_cast<int64_t>(rank))] = true;
  return named;
}

}  // namespace

Types mm(const Call& call) { return product(call, 0, 1, 2); }
Types addmm(const Call& call) { return product(call, 1, 2, 2); }
Types bmm(const Call& call) { return product(call, 0, 1, 3); }
Types baddbmm(const Call& call) { return product(call, 1, 2, 3); }

Types addbmm(const Call& call) {
  auto types = product(call, 1, 2, 3);
  if (!types) return std::nullopt;
  auto sizes = std::get<ir::TensorType>(types->front()).sizes;
  sizes.erase(sizes.begin());
  return contiguous(call.tensor(1)->dtype, std::move(sizes), call.tensor(1)->device);
}

Types mm_in_i32(const Call& call) {
  auto types = mm(call);
  return types ? in_dtype(std::move(types), DType::kI32) : std::nullopt;
}

Types grouped_mm(const Call& call) {
  const auto* rows = call.tensor(0);
  const auto* matrices = call.tensor(1);
  if (rows == nullptr || matrices == nullptr || rows->sizes.size() != 2 || matrices->sizes.size() != 3)
    return std::nullopt;
  require_equal(call, rows->sizes[1], matrices->sizes[1]);
  const auto* dtype = std::get_if<DType>(&call.args[*call.find("out_dtype")]);
  return contiguous(dtype == nullptr ? rows->dtype : *dtype, {rows->sizes[0], matrices->sizes[2]}, rows->device);
}

Types mm_scaled(const Call& call) {
  auto types = mm(call);
  const auto* dtype = std::get_if<DType>(&call.args[*call.find("out_dtype")]);
  return types && dtype != nullptr ? in_dtype(std::move(types), *dtype) : types;
}

Types mv(const Call& call) { return matrix_by_vector(call, 0); }
Types addmv(const Call& call) { return matrix_by_vector(call, 1); }

Types dot(const Call& call) {
  const auto* a = call.tensor(0);
  return a == nullptr ? std::nullopt : contiguous(a->dtype, {}, a->device);
}

Types addr(const Call& call) {
  const auto* self = call.tensor(0);
  const auto* column = call.tensor(1);
  const auto* row = call.tensor(2);
  const auto dtype = result_type(call, {0, 1, 2});
  if (self == nullptr || column == nullptr || row == nullptr || !dtype) return std::nullopt;
  if (column->sizes.size() != 1 || row->sizes.size() != 1) {
    throw UserError(
        npugraph::cat(call.op.name, ": vectors of rank ", column->sizes.size(), " and ", row->sizes.size(), ", not 1"));
  }
  const std::vector<Expr> sizes = {column->sizes[0], row->sizes[0]};
  const ir::TensorType as_column{*dtype, {sizes[0], 1}, {column->strides[0], 1}, column->device};
  auto strides = elementwise_strides(call, sizes, {self, &as_column, row});
  if (!strides) return std::nullopt;
  // FakeTensor ignores the layout of `self` if beta is 0, and eager keeps it.
  const auto* beta = std::get_if<Expr>(&call.args[*call.find("beta")]);
  const bool is_part = beta != nullptr && beta->is_constant() && beta->value().as_float() != 0;
  if (!is_part && !is_contiguous(sizes, *strides)) return std::nullopt;
  return std::vector<ir::Type>{ir::TensorType{*dtype, sizes, std::move(*strides), column->device}};
}

Types matmul(const Call& call) {
  const auto* a = call.tensor(0);
  const auto* b = call.tensor(1);
  if (a == nullptr || b == nullptr) return std::nullopt;
  if (a->sizes.empty() || b->sizes.empty()) {
    throw UserError(npugraph::cat(call.op.name, ": an operand without dimensions"));
  }
  auto left = a->sizes, right = b->sizes;
  const bool is_row = left.size() == 1, is_column = right.size() == 1;
  if (is_row) left.insert(left.begin(), 1);
  if (is_column) right.emplace_back(1);
  require_equal(call, left.back(), right[right.size() - 2]);
  auto sizes = broadcast_batch(call, left, right);
  if (!sizes) return std::nullopt;
  if (!is_row) sizes->push_back(left[left.size() - 2]);
  if (!is_column) sizes->push_back(right.back());
  return contiguous(a->dtype, std::move(*sizes), a->device);
}

Types linear(const Call& call) {
  const auto* x = call.tensor(0);
  const auto* weight = call.tensor(1);
  if (x == nullptr || weight == nullptr || x->sizes.empty()) return std::nullopt;
  auto sizes = x->sizes;
  sizes.pop_back();
  if (weight->sizes.size() > 2) {
    throw UserError(npugraph::cat(call.op.name, ": a weight of rank ", weight->sizes.size(), "; at most 2 is allowed"));
  }
  if (weight->sizes.size() == 2) sizes.push_back(weight->sizes.front());
  return contiguous(x->dtype, std::move(sizes), x->device);
}

Types trilinear(const Call& call) {
  const auto expanded = call.known_integers(*call.find("expand1"));
  if (call.tensor(0) == nullptr || !expanded) return std::nullopt;
  const size_t rank = call.tensor(0)->sizes.size() + expanded->size();
  const auto summed = named_dims(call, "sumdim", rank);
  if (!summed) return std::nullopt;
  // The last factor that has a dimension determines its size.
  std::vector<Expr> sizes(rank);
  for (size_t factor = 0; factor < 3; ++factor) {
    const auto* type = call.tensor(factor);
    const auto added = named_dims(call, npugraph::cat("expand", factor + 1), rank);
    if (type == nullptr || !added) return std::nullopt;
    size_t next = 0;
    for (size_t dim = 0; dim < rank; ++dim) {
      if ((*added)[dim]) continue;
      if (next == type->sizes.size()) return std::nullopt;
      sizes[dim] = type->sizes[next++];
    }
  }
  std::vector<Expr> kept;
  for (size_t dim = 0; dim < rank; ++dim) {
    if (!(*summed)[dim]) kept.push_back(sizes[dim]);
  }
  return contiguous(call.tensor(0)->dtype, std::move(kept), call.tensor(0)->device);
}

Types rnn_layer(const Call& call) {
  const auto* input = call.tensor(0);
  const auto* hidden = call.tensor(*call.find("hx_"));
  const auto* cell = call.tensor(*call.find("cx_"));
  const auto size = call.integer(*call.find("hidden_size"));
  // Training keeps a workspace whose size only oneDNN knows.
  const auto trains = call.boolean(*call.find("train"));
  if (input == nullptr || hidden == nullptr || cell == nullptr || !size || !trains || *trains) return std::nullopt;
  if (input->sizes.size() != 3) {
    throw UserError(npugraph::cat(call.op.name, ": an input of rank ", input->sizes.size(), ", not 3"));
  }
  return std::vector<ir::Type>{dense(input->dtype, {input->sizes[0], input->sizes[1], *size}, input->device),
                               dense(hidden->dtype, hidden->sizes, hidden->device),
                               dense(cell->dtype, cell->sizes, cell->device), dense(DType::kU8, {0}, input->device)};
}

Types cross(const Call& call) {
  const auto* a = call.tensor(0);
  const auto* b = call.tensor(1);
  if (a == nullptr || b == nullptr) return std::nullopt;
  auto sizes = broadcast(call.op.name, {a, b});
  return sizes ? contiguous(a->dtype, std::move(*sizes), a->device) : std::nullopt;
}

Types embedding(const Call& call) {
  const auto* weight = call.tensor(0);
  const auto* indices = call.tensor(1);
  if (weight == nullptr || indices == nullptr || weight->sizes.size() != 2) return std::nullopt;
  auto sizes = indices->sizes;
  sizes.push_back(weight->sizes.back());
  return contiguous(weight->dtype, std::move(sizes), weight->device);
}

Types gather(const Call& call) {
  const auto* self = call.tensor(0);
  const auto* index = call.tensor(*call.find("index"));
  if (self == nullptr || index == nullptr) return std::nullopt;
  return contiguous(self->dtype, index->sizes, self->device);
}

}  // namespace npugraph::ops::shapes
