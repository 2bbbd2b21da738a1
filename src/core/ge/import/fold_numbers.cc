// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "ge/import/rules.h"

namespace npugraph::ge {

namespace {

using Fold = std::optional<Numbers> (*)(const Call&);

// The number of elements of a shape; nullopt if it has a negative size, or too many.
std::optional<int64_t> count(const std::vector<int64_t>& dims) {
  int64_t elements = 1;
  for (const int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements)) return std::nullopt;
  }
  return elements;
}

template <ExprOp op>
Expr compute(const Expr& a, const Expr& b) {
  return Expr::make(op, {a, b});
}
Expr subtract(const Expr& a, const Expr& b) { return a - b; }

// Loops compute no powers, so that a power of a constant is the product of those of 2, 4, 8 ... that the bits of the
// exponent choose. Products wrap as those of int64 do, and exponents are below 64.
Expr integer_power(const Expr& base, const Expr& exponent) {
  if (exponent.is_constant() || base.as_int().value_or(0) < 1) return Expr::make(ExprOp::kPow, {base, exponent});
  Expr result(1);
  auto square = static_cast<uint64_t>(*base.as_int());
  for (int64_t bit = 1; bit < 64; bit *= 2) {
    const Expr chosen = Expr::make(ExprOp::kMod, {Expr::make(ExprOp::kFloorDiv, {exponent, Expr(bit)}), Expr(2)});
    result = result * Expr::make(ExprOp::kMax, {Expr(1), chosen * Expr(static_cast<int64_t>(square))});
    square *= square;
  }
  return result;
}

// Two shapes that are equal, or one of which has a single element.
template <Expr (*fn)(const Expr&, const Expr&)>
std::optional<Numbers> fold_arithmetic(const Call& call) {
  const Numbers &a = call.numbers("x1"), &b = call.numbers("x2");
  const bool a_is_one = a.elements.size() == 1, b_is_one = b.elements.size() == 1;
  if (a.dims != b.dims && !a_is_one && !b_is_one) return std::nullopt;
  const bool is_first = b_is_one && (!a_is_one || a.dims.size() > b.dims.size());
  Numbers result{.dtype = a.dtype, .dims = is_first ? a.dims : b.dims};
  for (size_t i = 0; i < (is_first ? a : b).elements.size(); ++i)
    result.elements.push_back(fn(a.elements[a_is_one ? 0 : i], b.elements[b_is_one ? 0 : i]));
  return result;
}

std::optional<Numbers> fold_negate(const Call& call) {
  Numbers result = call.numbers("x");
  for (Expr& element : result.elements) element = Expr(0) - element;
  return result;
}

std::optional<Numbers> same(const Call& call) { return call.numbers("x"); }

std::optional<Numbers> fold_concatenate(const Call& call) {
  if (call.integer("concat_dim") != 0 && call.integer("concat_dim") != -1) return std::nullopt;
  Numbers result;
  for (const Operand* part : call.list("x")) {
    const Numbers& numbers = *part->numbers;
    if (numbers.dims.size() != 1) return std::nullopt;
    result.dtype = numbers.dtype;
    result.elements.insert(result.elements.end(), numbers.elements.begin(), numbers.elements.end());
  }
  result.dims = {static_cast<int64_t>(result.elements.size())};
  return result;
}

std::optional<Numbers> fold_pack(const Call& call) {
  Numbers result;
  for (const Operand* part : call.list("x")) {
    if (!part->numbers->is_scalar()) return std::nullopt;
    result.dtype = part->numbers->dtype;
    result.elements.push_back(part->numbers->elements.front());
  }
  result.dims = {static_cast<int64_t>(result.elements.size())};
  return result;
}

// Elements of a list at constant places; a scalar place gives a scalar.
std::optional<Numbers> fold_gather(const Call& call) {
  const Numbers& x = call.numbers("x");
  const Numbers& places = call.numbers("indices");
  if (x.dims.size() != 1 || call.attr_int("batch_dims") != 0) return std::nullopt;
  Numbers result{.dtype = x.dtype, .dims = places.dims};
  for (const int64_t place : call.integers("indices"))
    result.elements.push_back(x.elements[dimension(call, place, x.elements.size())]);
  return result;
}

std::optional<Numbers> fold_gather_v2(const Call& call) {
  const int64_t axis = call.integer("axis");
  return axis == 0 || axis == -1 ? fold_gather(call) : std::nullopt;
}

std::optional<Numbers> fold_slice(const Call& call, const std::vector<int64_t>& strides) {
  const Numbers& x = call.numbers("x");
  const bool is_plain = call.attr_int("ellipsis_mask") == 0 && call.attr_int("new_axis_mask") == 0;
  const std::vector<int64_t> begin = call.integers("begin"), end = call.integers("end");
  if (x.dims.size() != 1 || begin.size() != 1 || end.size() != 1 || strides.size() != 1 || strides[0] < 1 || !is_plain)
    return std::nullopt;
  const int64_t size = x.dims.front();
  const auto inside = [&](int64_t place) { return std::clamp(place < 0 ? place + size : place, int64_t{0}, size); };
  const int64_t from = (call.attr_int("begin_mask") & 1) != 0 ? 0 : inside(begin[0]);
  if ((call.attr_int("shrink_axis_mask") & 1) != 0) {
    if (from == size) return std::nullopt;
    return Numbers{x.dtype, {}, {x.elements[from]}};
  }
  const int64_t to = (call.attr_int("end_mask") & 1) != 0 ? size : inside(end[0]);
  Numbers result{.dtype = x.dtype};
  const int64_t stride = std::min(strides[0], std::max<int64_t>(size, 1));  // so that `i` cannot overflow
  for (int64_t i = from; i < to; i += stride) result.elements.push_back(x.elements[i]);
  result.dims = {static_cast<int64_t>(result.elements.size())};
  return result;
}

std::optional<Numbers> fold_slice_v1(const Call& call) { return fold_slice(call, call.integers("strides")); }
std::optional<Numbers> fold_slice_v2(const Call& call) {
  if (call.has("axes") && call.integers("axes") != std::vector<int64_t>{0}) return std::nullopt;
  return fold_slice(call, call.has("strides") ? call.integers("strides") : std::vector<int64_t>{1});
}

std::optional<Numbers> fold_reshape(const Call& call) {
  Numbers result = call.numbers("x");
  std::vector<int64_t> dims = call.integers("shape");
  const auto elements = static_cast<int64_t>(result.elements.size());
  if (const auto open = std::ranges::find(dims, -1); open != dims.end()) {
    *open = 1;
    const std::optional<int64_t> others = count(dims);
    *open = others.value_or(0) == 0 ? 0 : elements / *others;
  }
  if (count(dims) != elements) return std::nullopt;
  result.dims = dims;
  return result;
}

std::optional<Numbers> fold_squeeze(const Call& call) {
  Numbers result = call.numbers("x");
  if (result.elements.size() != 1) return std::nullopt;
  const std::vector<int64_t> axes = call.attr_ints("axis");
  result.dims.resize(axes.empty() ? 0 : result.dims.size() - std::min(result.dims.size(), axes.size()), 1);
  return result;
}

std::optional<Numbers> fold_unsqueeze(const Call& call) {
  Numbers result = call.numbers("x");
  if (!result.is_scalar() || call.attr_ints("axes").size() != 1) return std::nullopt;
  result.dims = {1};
  return result;
}

std::optional<Numbers> fold_product(const Call& call) {
  const Numbers& x = call.numbers("x");
  if (x.dims.size() != 1) return std::nullopt;
  Expr product(1);
  for (const Expr& element : x.elements) product = product * element;
  if (call.attr_bool("keep_dims")) return Numbers{x.dtype, {1}, {product}};
  return Numbers{x.dtype, {}, {product}};
}

struct FoldRow {
  std::string_view type;
  Fold fold;
};

constexpr auto kFolds = std::to_array<FoldRow>({
    {"Add", fold_arithmetic<compute<ExprOp::kAdd>>},
    {"ConcatV2", fold_concatenate},
    {"FloorDiv", fold_arithmetic<compute<ExprOp::kFloorDiv>>},
    {"FloorMod", fold_arithmetic<compute<ExprOp::kMod>>},
    {"Gather", fold_gather},
    {"GatherV2", fold_gather_v2},
    {"Identity", same},
    {"Maximum", fold_arithmetic<compute<ExprOp::kMax>>},
    {"Minimum", fold_arithmetic<compute<ExprOp::kMin>>},
    {"Mul", fold_arithmetic<compute<ExprOp::kMul>>},
    {"Neg", fold_negate},
    {"Pack", fold_pack},
    {"Pow", fold_arithmetic<integer_power>},
    {"ReduceProd", fold_product},
    {"Reshape", fold_reshape},
    {"Squeeze", fold_squeeze},
    {"StridedSlice", fold_slice_v1},
    {"StridedSliceV2", fold_slice_v2},
    {"Sub", fold_arithmetic<subtract>},
    {"TensorMove", same},
    {"Unsqueeze", fold_unsqueeze},
});

// Whether an operand is known as expressions with which shapes can be computed. Floats are only handed on.
bool fits(const FoldRow& row, const Operand* operand) {
  if (operand == nullptr) return true;
  return operand->numbers && (row.fold == same || is_integral(operand->numbers->dtype));
}

}  // namespace

std::optional<Operand> fold_numbers(const Call& call, const std::vector<Operand*>& operands) {
  const auto* row = std::ranges::find(kFolds, call.def().type, &FoldRow::type);
  if (row == kFolds.end() || operands.empty()) return std::nullopt;
  if (!std::ranges::all_of(operands, [&](const Operand* operand) { return fits(*row, operand); })) return std::nullopt;
  std::optional<Numbers> numbers = row->fold(call);
  if (!numbers || static_cast<int64_t>(numbers->elements.size()) > kMostNumbers) return std::nullopt;
  Operand result{.numbers = std::move(numbers)};
  if (row->fold == same) {
    result.constant = operands.front()->constant;
    result.dtype = operands.front()->dtype;
  }
  return result;
}

std::vector<std::string_view> folded_types() {
  std::vector<std::string_view> types;
  for (const FoldRow& row : kFolds) types.push_back(row.type);
  return types;
}

}  // namespace npugraph::ge
