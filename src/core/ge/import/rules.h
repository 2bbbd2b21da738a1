// SPDX-License-Identifier: Apache-2.0
// The meaning of IR operators: what each becomes in the Graph, and the pieces of which rules consist.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ge/import/call.h"
#include "ge/import/operand.h"

namespace npugraph::ge {

// Adds the nodes of a call to the Graph and returns its results, one for each output of the IR operator. UserError if
// the call is not allowed.
using Rule = std::vector<Operand> (*)(const Call& call);

struct RuleRow {
  std::string_view type;
  Rule rule;
};

// The rule of an IR operator; null if it has none.
Rule find_rule(std::string_view type);
// All types with a rule, sorted.
std::vector<std::string_view> ruled_types();

// The rows of each file.
std::span<const RuleRow> pointwise_rules();
std::span<const RuleRow> layout_rules();
std::span<const RuleRow> product_rules();
std::span<const RuleRow> norm_rules();
std::span<const RuleRow> reduction_rules();
std::span<const RuleRow> index_rules();
std::span<const RuleRow> number_rules();
std::span<const RuleRow> attention_rules();
std::span<const RuleRow> order_rules();
std::span<const RuleRow> activation_rules();
std::span<const RuleRow> image_rules();
std::span<const RuleRow> loss_rules();
std::span<const RuleRow> text_rules();

inline Attr flag(bool value) { return Expr::constant(Scalar::of_bool(value)); }
inline Attr number(double value) { return Expr::constant(Scalar::of_float(value)); }

inline std::vector<Operand> one(ir::ValueId value) { return {Operand::of(value)}; }

inline std::vector<Operand> all(const std::vector<ir::ValueId>& values) {
  std::vector<Operand> results;
  for (const ir::ValueId value : values) results.push_back(Operand::of(value));
  return results;
}

// A dimension that counts from the end if it is negative, as one from the front. UserError outside of `rank`.
size_t dimension(const Call& call, int64_t dim, size_t rank);

// The tensor with other sizes, whose product must be the same: a view where its strides allow one, else a copy.
ir::ValueId reshape(Context& context, ir::ValueId value, const std::vector<Expr>& sizes);

// A number as a tensor, which operators of elements take whether or not it is known.
ir::ValueId as_tensor(Context& context, const Expr& number, DType dtype);
// 0, 1, .., size - 1
ir::ValueId counted(Context& context, const Expr& size);

// For operators on images, whose dimensions are batch, channels, height and width: UserError if the attribute
// 'data_format' is not NCHW.
void require_channels_first(const Call& call);

// Entries `first` and `first` + 1 of an attribute that has `entries` of them. UserError for another number of entries,
// or for one of these two below `least`.
std::vector<Expr> two_of(const Call& call, std::string_view name, size_t first, size_t entries, int64_t least);

// Entries of height and width in an attribute of four entries.
inline std::vector<Expr> height_and_width(const Call& call, std::string_view name, int64_t least) {
  return two_of(call, name, 2, 4, least);
}

// The four entries of the attribute 'pads': above, below, left, right. UserError for another number of entries, or for
// a negative one.
std::vector<int64_t> four_pads(const Call& call);
// Those of height and width. UserError if both sides of a dimension differ.
std::vector<Expr> even_pads(const Call& call);

// Arithmetic on shapes while a graph is imported: the result of a call whose operands are all known as expressions, of
// integers unless the call only hands them on; nullopt if some are not, or if the operator is none of those that
// compute shapes. Such a call needs no node.
std::optional<Operand> fold_numbers(const Call& call, const std::vector<Operand*>& operands);

// The types of the operators that compute shapes.
std::vector<std::string_view> folded_types();

}  // namespace npugraph::ge
