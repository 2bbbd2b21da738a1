// SPDX-License-Identifier: Apache-2.0
// Linear algebra on the last two dimensions. Matrices that LAPACK writes are column-major, all others row-major.
#include "base/error.h"
#include "ops/shapes/promote.h"
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"
#include "tensor/shape.h"

namespace npugraph::ops::shapes {
namespace {

using SizeList = std::vector<Expr>;
using Results = std::vector<ir::Type>;

// An argument that holds matrices.
struct Matrices {
  const ir::TensorType* type;

  const SizeList& sizes() const { return type->sizes; }
  const Expr& rows() const { return sizes()[sizes().size() - 2]; }
  const Expr& columns() const { return sizes().back(); }
  SizeList batch() const { return {sizes().begin(), sizes().end() - 2}; }
  SizeList batch_and(const std::vector<Expr>& last) const {
    SizeList all = batch();
    all.insert(all.end(), last.begin(), last.end());
    return all;
  }

  // Fresh tensors of the same type, or of another.
  ir::Type by_row(const SizeList& all) const { return by_row(all, type->dtype); }
  ir::Type by_row(const SizeList& all, DType dtype) const { return dense(dtype, all, type->device); }
  ir::Type by_column(const SizeList& all) const { return by_column(all, type->dtype); }
  ir::Type by_column(SizeList all, DType dtype) const {
    if (all.size() < 2) return by_row(all, dtype);
    std::vector<size_t> order = {all.size() - 2, all.size() - 1};
    for (size_t i = all.size() - 2; i-- > 0;) order.push_back(i);
    auto strides = dense_strides(all, order);
    return ir::TensorType{dtype, std::move(all), std::move(strides), type->device};
  }
  ir::Type empty() const { return by_row({0}); }
};

std::optional<Matrices> matrices(const Call& call, size_t i) {
  const auto* type = call.tensor(i);
  if (type == nullptr) return std::nullopt;
  if (type->sizes.size() >= 2) return Matrices{type};
  throw UserError(npugraph::cat(call.op.name, ": a tensor of rank ", type->sizes.size(), "; 2 or more is needed"));
}

std::optional<Matrices> square_matrices(const Call& call, size_t i) {
  const auto a = matrices(call, i);
  if (!a) return std::nullopt;
  const Expr difference = a->rows() - a->columns();
  if (!difference.as_int() || difference.is_int(0)) return a;
  throw UserError(npugraph::cat(call.op.name, ": matrices of ", a->rows().str(), " by ", a->columns().str(),
                                "; square ones are needed"));
}

Expr shorter_side(const Call& call, const Matrices& a) {
  const auto order = order_of(a.rows(), a.columns(), call.graph.symbols);
  if (order) return *order < 0 ? a.rows() : a.columns();
  return Expr::make(ExprOp::kMin, {a.rows(), a.columns()});
}

// The sizes of `a` with its batch broadcast to that of `b`.
Sizes broadcast_to_batch(const Call& call, const Matrices& a, const Matrices& b) {
  auto sizes = broadcast_batch(call, a.sizes(), b.sizes());
  if (sizes) sizes->insert(sizes->end(), {a.rows(), a.columns()});
  return sizes;
}

// Whether the right-hand side is vectors: one, or one for each matrix. Returns nullopt if symbols leave it open.
std::optional<bool> is_vectors(const Matrices& a, const ir::TensorType& b) {
  if (b.sizes.size() == 1) return true;
  if (b.sizes.size() + 1 != a.sizes().size()) return false;
  bool is_open = false;
  for (size_t i = 0; i < b.sizes.size(); ++i) {
    const Expr difference = b.sizes[i] - a.sizes()[i];
    if (difference.as_int() && !difference.is_int(0)) return false;
    is_open = is_open || !difference.as_int();
  }
  return is_open ? std::nullopt : std::optional(true);
}

// The right-hand side of a system with these matrices; vectors are matrices of one column.
struct RightHandSide {
  ir::TensorType type;
  bool is_vectors;
};

std::optional<RightHandSide> right_hand_side(const Call& call, const Matrices& a, size_t i) {
  const auto* b = call.tensor(i);
  const auto vectors = b == nullptr ? std::nullopt : is_vectors(a, *b);
  if (!vectors) return std::nullopt;
  ir::TensorType type = *b;
  if (*vectors) type.sizes.emplace_back(1);
  if (*vectors) type.strides.emplace_back(1);
  return RightHandSide{std::move(type), *vectors};
}

Types optional_result(const Matrices& a, const std::optional<SizeList>& sizes, bool in_columns) {
  if (!sizes) return std::nullopt;
  return Results{in_columns ? a.by_column(*sizes) : a.by_row(*sizes)};
}

}  // namespace

Types matrix_by_row(const Call& call) {
  const auto a = square_matrices(call, 0);
  return a ? Types(Results{a->by_row(a->sizes())}) : std::nullopt;
}

Types matrix_by_column(const Call& call) {
  const auto a = matrices(call, 0);
  return a ? Types(Results{a->by_column(a->sizes())}) : std::nullopt;
}

Types square_by_column(const Call& call) { return square_matrices(call, 0) ? matrix_by_column(call) : std::nullopt; }

Types square_with_info(const Call& call) {
  const auto a = square_matrices(call, 0);
  if (!a) return std::nullopt;
  return Results{a->by_column(a->sizes()), a->by_row(a->batch(), DType::kI32)};
}

Types factor_with_info(const Call& call) {
  const auto a = matrices(call, 0);
  if (!a) return std::nullopt;
  const Expr shorter = shorter_side(call, *a);
  return Results{a->by_column(a->sizes()), a->by_row(a->batch_and({shorter}), DType::kI32),
                 a->by_row(a->batch(), DType::kI32)};
}

Types determinant(const Call& call) {
  const auto a = square_matrices(call, 0);
  if (!a) return std::nullopt;
  Results results{a->by_row(a->batch())};
  if (call.op.schema.returns.size() == 4) {
    results.push_back(a->by_row(a->batch(), real_of(a->type->dtype)));
  }
  results.push_back(a->by_column(a->sizes()));
  results.push_back(a->by_row(a->batch_and({a->rows()}), DType::kI32));
  return results;
}

Types lu(const Call& call) {
  const auto a = matrices(call, 0);
  if (!a) return std::nullopt;
  const Expr shorter = shorter_side(call, *a);
  const bool unpacks = call.find("unpack_data").has_value();
  const bool has_data = !unpacks || is_set(call, "unpack_data");
  const bool has_pivots = is_set(call, unpacks ? "unpack_pivots" : "pivot");
  return Results{has_pivots ? a->by_row(a->batch_and({a->rows(), a->rows()})) : a->empty(),
                 has_data ? a->by_row(a->batch_and({a->rows(), shorter})) : a->empty(),
                 has_data ? a->by_row(a->batch_and({shorter, a->columns()})) : a->empty()};
}

Types qr(const Call& call) {
  const auto a = matrices(call, 0);
  const auto* mode = std::get_if<std::string>(&call.args[1]);
  if (!a || mode == nullptr) return std::nullopt;
  const Expr shorter = shorter_side(call, *a);
  const Expr inner = *mode == "complete" ? a->rows() : shorter;
  return Results{*mode == "r" ? a->empty() : a->by_column(a->batch_and({a->rows(), inner})),
                 a->by_column(a->batch_and({inner, a->columns()}))};
}

Types geqrf(const Call& call) {
  const auto a = matrices(call, 0);
  if (!a) return std::nullopt;
  const Expr shorter = shorter_side(call, *a);
  return Results{a->by_column(a->sizes()), a->by_row(a->batch_and({shorter}))};
}

Types eigenvalues(const Call& call) {
  const auto a = square_matrices(call, 0);
  if (!a) return std::nullopt;
  const auto dtype = is_complex(a->type->dtype) ? a->type->dtype : complex_of(a->type->dtype);
  if (!dtype) return std::nullopt;
  Results results{a->by_row(a->batch_and({a->rows()}), *dtype)};
  if (call.op.schema.returns.size() == 2) results.push_back(a->by_column(a->sizes(), *dtype));
  return results;
}

Types eigenvalues_real(const Call& call) {
  const auto a = square_matrices(call, 0);
  if (!a) return std::nullopt;
  return Results{a->by_row(a->batch_and({a->rows()}), real_of(a->type->dtype)),
                 is_set(call, "compute_v") ? a->by_column(a->sizes()) : a->empty()};
}

Types svd(const Call& call) {
  const auto a = matrices(call, 0);
  if (!a) return std::nullopt;
  const Expr shorter = shorter_side(call, *a);
  const bool is_full = is_set(call, "full_matrices");
  const auto values = a->by_row(a->batch_and({shorter}), real_of(a->type->dtype));
  if (!is_set(call, "compute_uv")) return Results{a->empty(), values, a->empty()};
  return Results{a->by_column(a->batch_and({a->rows(), is_full ? a->rows() : shorter})), values,
                 a->by_column(a->batch_and({is_full ? a->columns() : shorter, a->columns()}))};
}

Types pseudoinverse(const Call& call) {
  const auto a = matrices(call, 0);
  if (!a) return std::nullopt;
  const ir::TensorType batch{a->type->dtype, a->batch(), {}, {}};
  std::vector<const ir::TensorType*> operands{&batch};
  const bool is_empty = numel(a->sizes()).is_int(0);
  for (const std::string_view name : {"atol", "rtol"}) {
    const auto* tolerance = call.tensor(*call.find(name));
    if (tolerance != nullptr && !is_empty) operands.push_back(tolerance);
  }
  auto sizes = broadcast(call.op.name, operands);
  if (sizes) sizes->insert(sizes->end(), {a->columns(), a->rows()});
  return optional_result(*a, sizes, false);
}

Types solve(const Call& call) {
  const auto a = square_matrices(call, 0);
  const auto b = a ? right_hand_side(call, *a, 1) : std::nullopt;
  if (!b) return std::nullopt;
  const Matrices right{&b->type};
  auto sizes = broadcast_to_batch(call, right, *a);
  if (!sizes) return std::nullopt;
  if (b->is_vectors) sizes->pop_back();
  return Results{is_set(call, "left") ? right.by_column(*sizes) : right.by_row(*sizes), a->by_column(a->sizes()),
                 a->by_row(a->batch_and({a->rows()}), DType::kI32), a->by_row(a->batch(), DType::kI32)};
}

Types solve_lu(const Call& call) {
  const auto a = square_matrices(call, 0);
  const auto b = matrices(call, 2);
  if (!a || !b) return std::nullopt;
  return optional_result(*b, broadcast_to_batch(call, *b, *a), is_set(call, "left"));
}

Types solve_triangular(const Call& call) {
  const auto a = square_matrices(call, 0);
  const auto b = matrices(call, 1);
  if (!a || !b) return std::nullopt;
  return optional_result(*b, broadcast_to_batch(call, *b, *a), true);
}

Types solve_cholesky(const Call& call) {
  const auto b = matrices(call, 0);
  const auto a = square_matrices(call, 1);
  if (!a || !b) return std::nullopt;
  return optional_result(*b, broadcast_to_batch(call, *b, *a), true);
}

Types solve_triangular_with_copy(const Call& call) {
  const auto b = matrices(call, 0);
  const auto a = square_matrices(call, 1);
  const auto solution = a && b ? broadcast_to_batch(call, *b, *a) : std::nullopt;
  const auto copy = a && b ? broadcast_to_batch(call, *a, *b) : std::nullopt;
  if (!solution || !copy) return std::nullopt;
  return Results{b->by_column(*solution), a->by_column(*copy)};
}

Types least_squares(const Call& call) {
  const auto a = matrices(call, 0);
  const auto b = a ? right_hand_side(call, *a, 1) : std::nullopt;
  const auto* asked = std::get_if<std::string>(&call.args[*call.find("driver")]);
  if (!b) return std::nullopt;
  const std::string_view driver = asked == nullptr ? "gelsy" : std::string_view(*asked);
  const Matrices right{&b->type};
  auto sizes = broadcast_to_batch(call, right, *a);
  const auto is_tall = order_of(a->rows(), a->columns(), call.graph.symbols);
  if (!sizes || !is_tall) return std::nullopt;
  // With these drivers, the ranks found at run time decide whether there are residuals.
  if (*is_tall > 0 && (driver == "gelsd" || driver == "gelss")) return std::nullopt;
  // LAPACK writes the solution into a copy of the right-hand side that is long enough for both.
  (*sizes)[sizes->size() - 2] = Expr::make(ExprOp::kMax, {a->rows(), a->columns()});
  auto solution = std::get<ir::TensorType>(right.by_column(*sizes));
  solution.sizes[sizes->size() - 2] = a->columns();
  const DType real = real_of(a->type->dtype);
  SizeList residuals = solution.sizes;
  residuals.erase(residuals.end() - 2);
  if (b->is_vectors) solution.sizes.pop_back();
  if (b->is_vectors) solution.strides.pop_back();
  const bool has_ranks = driver != "gels", has_values = driver == "gelsd" || driver == "gelss";
  return Results{solution, a->by_row(*is_tall > 0 && driver == "gels" ? residuals : SizeList{0}, real),
                 a->by_row(has_ranks ? a->batch() : SizeList{0}, DType::kI64),
                 a->by_row(has_values ? a->batch_and({shorter_side(call, *a)}) : SizeList{0}, real)};
}

Types multiply_by_reflections(const Call& call) {
  const auto other = matrices(call, 2);
  return other ? Types(Results{other->by_column(other->sizes())}) : std::nullopt;
}

}  // namespace npugraph::ops::shapes
