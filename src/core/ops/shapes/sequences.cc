// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"

namespace npugraph::ops::shapes {

namespace {

struct Attention {
  const ir::TensorType* query = nullptr;
  const ir::TensorType* key = nullptr;
  const ir::TensorType* value = nullptr;
};

// The arguments query, key and value. UserError if their rank is below 2, or, with `is_batch`, not 4.
std::optional<Attention> attention_arguments(const Call& call, bool is_batch) {
  const Attention a{call.tensor(*call.find("query")), call.tensor(*call.find("key")), call.tensor(*call.find("value"))};
  for (const auto* type : {a.query, a.key, a.value}) {
    if (type == nullptr) return std::nullopt;
    const size_t rank = type->sizes.size();
    if (is_batch ? rank != 4 : rank < 2) {
      throw UserError(
          npugraph::cat(call.op.name, ": an operand of rank ", rank, "; ", is_batch ? "4" : "2 or more", " is needed"));
    }
  }
  return a;
}

// The broadcast of the leading sizes of `left` and `right`, the rows of `left`, and `columns`.
std::optional<std::vector<Expr>> rows_by(const Call& call, const std::vector<Expr>& left,
                                         const std::vector<Expr>& right, const Expr& columns) {
  auto sizes = broadcast_batch(call, left, right);
  if (!sizes) return std::nullopt;
  sizes->push_back(left[left.size() - 2]);
  sizes->push_back(columns);
  return sizes;
}

// The sizes of `type`, with the number of heads of the query if several of its heads share one of keys and values.
std::vector<Expr> with_heads(const ir::TensorType& type, const ir::TensorType& query, bool shares_heads) {
  auto sizes = type.sizes;
  if (shares_heads && sizes.size() > 2 && query.sizes.size() > 2) {
    sizes[sizes.size() - 3] = query.sizes[query.sizes.size() - 3];
  }
  return sizes;
}

// The results of attention that is computed by separate products, both dense in row-major order: [..., rows, size], and
// the attention weights.
Types written_out(const Call& call, const Attention& a) {
  const bool shares_heads = call.boolean(*call.find("enable_gqa")).value_or(false);
  const auto key = with_heads(*a.key, *a.query, shares_heads), value = with_heads(*a.value, *a.query, shares_heads);
  const auto weights = rows_by(call, a.query->sizes, key, key[key.size() - 2]);
  const auto result = weights ? rows_by(call, *weights, value, value.back()) : std::nullopt;
  if (!result) return std::nullopt;
  return std::vector<ir::Type>{dense(a.query->dtype, *result, a.query->device),
                               dense(a.query->dtype, *weights, a.query->device)};
}

// [batch, heads, rows, size] with heads inside rows in memory.
ir::Type rows_outside_heads(const ir::TensorType& type) {
  return ir::TensorType{type.dtype, type.sizes, dense_strides(type.sizes, {3, 1, 2, 0}), type.device};
}

Types like_query(const Call& call, const Attention& a) {
  return like(*a.query, a.query->sizes, preserved_strides(call, *a.query));
}

// Whether torch may compute the attention in one kernel, which keeps the layout of the query.
bool may_be_fused(const Call& call, const Attention& a) {
  const auto* dropout = std::get_if<Expr>(&call.args[*call.find("dropout_p")]);
  const bool drops = dropout != nullptr && dropout->is_constant() && dropout->value().as_float() != 0;
  const auto other_size = [&](const ir::TensorType* type) {
    const Expr difference = type->sizes.back() - a.query->sizes.back();
    return difference.as_int() && !difference.is_int(0);
  };
  return a.query->sizes.size() == 4 && !drops && is_floating(a.query->dtype) && !other_size(a.key) &&
         !other_size(a.value);
}

}  // namespace

Types attention(const Call& call) {
  const auto a = attention_arguments(call, true);
  if (!a) return std::nullopt;
  const Expr difference = a->value->sizes.back() - a->query->sizes.back();
  if (difference.is_int(0)) return like_query(call, *a);
  if (!difference.as_int()) return std::nullopt;
  auto sizes = a->query->sizes;
  sizes.back() = a->value->sizes.back();
  return contiguous(a->query->dtype, std::move(sizes), a->query->device);
}

Types attention_fused(const Call& call) {
  const auto a = attention_arguments(call, true);
  auto types = a ? like_query(call, *a) : std::nullopt;
  if (!types) return std::nullopt;
  const std::vector<Expr> sizes(a->query->sizes.begin(), a->query->sizes.end() - 1);
  types->emplace_back(
      ir::TensorType{compute_type(a->query->dtype), sizes, dense_strides(sizes, {1, 2, 0}), a->query->device});
  return types;
}

Types attention_fused_backward(const Call& call) {
  const auto a = attention_arguments(call, true);
  if (!a) return std::nullopt;
  return std::vector<ir::Type>{rows_outside_heads(*a->query), rows_outside_heads(*a->key),
                               rows_outside_heads(*a->value)};
}

Types attention_written_out(const Call& call) {
  const auto a = attention_arguments(call, false);
  return a ? written_out(call, *a) : std::nullopt;
}

Types attention_either(const Call& call) {
  const auto a = attention_arguments(call, false);
  auto types = a ? written_out(call, *a) : std::nullopt;
  if (!types) return std::nullopt;
  types->pop_back();
  // The choice of the kernel also depends on settings of torch.
  if (may_be_fused(call, *a) && like_query(call, *a) != types) return std::nullopt;
  return types;
}

Types lstm_cell(const Call& call) {
  const auto* gates = call.tensor(0);
  const auto* cell = call.tensor(2);
  if (gates == nullptr || cell == nullptr) return std::nullopt;
  const ir::Type state = dense(cell->dtype, cell->sizes, cell->device);
  return std::vector<ir::Type>{state, state, dense(gates->dtype, gates->sizes, gates->device)};
}

Types ctc_loss(const Call& call) {
  const auto* log_probs = call.tensor(0);
  const auto lengths = call.known_integers(3);
  if (log_probs == nullptr || log_probs->sizes.size() != 3 || !lengths || lengths->empty()) return std::nullopt;
  const Expr& steps = log_probs->sizes[0];
  const Expr& batch = log_probs->sizes[1];
  // A blank before, between and after the labels of the longest target.
  const int64_t states = 2 * std::max<int64_t>(0, *std::max_element(lengths->begin(), lengths->end())) + 1;
  return std::vector<ir::Type>{dense(log_probs->dtype, {batch}, log_probs->device),
                               dense(log_probs->dtype, {batch, steps, states}, log_probs->device)};
}

}  // namespace npugraph::ops::shapes
