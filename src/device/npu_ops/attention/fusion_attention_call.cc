// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string_view>

#include "device/npu_ops/attention/fusion_attention.h"

namespace npugraph::npu_ops {
namespace {

constexpr int64_t kLastFusionSparseMode = 8;

int64_t first_of(const std::optional<std::vector<int64_t>>& list) { return list && !list->empty() ? list->front() : 0; }

}  // namespace

FusionAttention::FusionAttention(const CallArguments& call)
    : op_(call.op()), numbers_are_tensors_(std::string_view(op_).ends_with("_v3")) {
  const std::string layout = call.text({"input_layout"});
  axes_ = layout_of(op_, layout).in;
  scale_ = call.number({"scale", "scale_value"}, 1);
  take_tensors(call);
  take_lengths(call);
  take_mask(call);
  take_dropout(call);
}

void FusionAttention::take_tensors(const CallArguments& call) {
  const Tensor &query = call.tensor({"query"}), &key = call.tensor({"key"}), &value = call.tensor({"value"});
  check_floating(op_, "query", query);
  check_type(op_, "key", key, {query.scalar_type()});
  check_type(op_, "value", value, {query.scalar_type()});
  const int64_t heads = call.integer({"head_num"});
  query_ = to_heads(op_, "query", query, axes_, heads);
  TORCH_CHECK(query_.sym_size(1) == heads, op_, ": head_num is ", heads, ", and query has ", query_.sym_size(1),
              " heads");
  // Keys may have fewer heads than queries, of the same size.
  const int64_t key_heads = heads_of_rows(key, axes_, query_.sym_size(3));
  key_ = to_heads(op_, "key", key, axes_, key_heads);
  value_ = to_heads(op_, "value", value, axes_, key_heads);
  const Tensor query_rope = call.optional_tensor({"query_rope"}), key_rope = call.optional_tensor({"key_rope"});
  TORCH_CHECK(query_rope.defined() == key_rope.defined(), op_, ": query_rope and key_rope go together");
  if (query_rope.defined()) {
    const Tensor of_query = to_heads(op_, "query_rope", query_rope, axes_, heads);
    rope_size = of_query.sym_size(3);
    query_ = at::cat({query_, of_query}, -1);
    key_ = at::cat({key_, to_heads(op_, "key_rope", key_rope, axes_, key_heads)}, -1);
  }
  check_heads(op_, query_, key_, value_);
  sink_ = call.optional_tensor({"sink"});
}

void FusionAttention::take_lengths(const CallArguments& call) {
  if (!is_packed(axes_)) return;
  const auto queries = call.integers({"actual_seq_qlen"});
  const auto keys = call.integers({"actual_seq_kvlen"});
  TORCH_CHECK(queries && keys && queries->size() == keys->size(), op_,
              ": layout TND needs actual_seq_qlen and actual_seq_kvlen of the same length");
  query_sequences_ = Sequences::packed(from_ends(op_, "actual_seq_qlen", *queries));
  key_sequences_ = Sequences::packed(from_ends(op_, "actual_seq_kvlen", *keys));
}

void FusionAttention::take_mask(const CallArguments& call) {
  rule_ = {.sparse_mode = call.integer({"sparse_mode"}),
           .pre_tokens = call.integer({"pre_tockens", "pre_tokens"}, kAllTokens),
           .next_tokens = call.integer({"next_tockens", "next_tokens"}, kAllTokens)};
  check_rule(op_, rule_, kLastFusionSparseMode);
  TORCH_CHECK(rule_.sparse_mode < 7 || is_packed(axes_), op_, ": sparse_mode ", rule_.sparse_mode,
              " is for layout TND");
  prefix_ = call.integers({"prefix"}).value_or(std::vector<int64_t>());
  const bool with_prefix = rule_.sparse_mode == 5 || rule_.sparse_mode == 6;
  TORCH_CHECK(with_prefix == !prefix_.empty(), op_, ": sparse_mode is ", rule_.sparse_mode, " and prefix has ",
              prefix_.size(), " numbers, allowed are modes 5 and 6 with one number for each sequence, others without");
  mask_ = with_four_dims(call.optional_tensor({"atten_mask"}), query_.sym_size(2));
  pse_type_ = call.integer({"pse_type"}, 1);
  TORCH_CHECK(pse_type_ >= 0 && pse_type_ <= 3, op_, ": pse_type is ", pse_type_, ", allowed are 0 to 3");
  pse_given_ = call.optional_tensor({"pse"});
  TORCH_CHECK(pse_type_ < 2 || pse_given_.defined(), op_, ": pse_type ", pse_type_, " needs pse, the slopes");
  if (pse_given_.defined())
    pse_ = pse_type_ < 2 ? with_four_dims(pse_given_, query_.sym_size(2))
                         : pse_given_.reshape_symint({-1, query_.sym_size(1), 1, 1});
  query_start_ = first_of(call.integers({"q_start_idx"}));
  key_start_ = first_of(call.integers({"kv_start_idx"}));
}

void FusionAttention::take_dropout(const CallArguments& call) {
  dropout_ = Dropout(op_, call.number({"keep_prob"}, 1));
  if (dropout_.keeps_all()) return;
  const c10::SymInt all = count_weights();
  weights = all.maybe_as_int().value_or(0);
  const Tensor mask = call.optional_tensor({"dropout_mask"});
  if (mask.defined()) return dropout_.set_mask(op_, mask, all);
  take_seed(call);
  dropout_.set_key(seed.key);
}

void FusionAttention::take_seed(const CallArguments& call) {
  if (numbers_are_tensors_) {
    if (const Tensor given = call.optional_tensor({"seed"}); given.defined())
      seed = dropout_seed(given, call.given_tensor({"offset"}));
  } else {
    const int64_t number = call.integer({"seed"}), offset = call.integer({"offset"});
    if (number != 0 || offset != 0) seed = dropout_seed(number, offset, query_);
  }
  if (seed.key.defined()) return;
  TORCH_CHECK(std::string_view(op_).find("_grad") == std::string_view::npos, op_, ": keep_prob is ",
              dropout_.keep_prob(),
              " and there is no seed, of which the forward call made its mask. Where that was in "
              "a graph its number is not known; npu_fusion_attention_v3 gives it as a tensor");
  seed = draw_dropout_seed(query_);
}

c10::SymInt FusionAttention::count_weights() const {
  if (!query_sequences_) return query_.sym_size(0) * query_.sym_size(1) * query_.sym_size(2) * key_.sym_size(2);
  c10::SymInt out = 0;
  for (int64_t index = 0; index < query_sequences_->count(); ++index)
    out += query_.sym_size(1) * query_sequences_->length(index) * key_sequences_->length(index);
  return out;
}

std::vector<FusionAttention::Piece> FusionAttention::pieces() const {
  std::vector<Piece> out;
  if (!query_sequences_) {
    const Weighting all = weighting(0, query_, key_, 0);
    out.push_back({query_, key_, value_, all});
    return out;
  }
  c10::SymInt first = 0;
  for (int64_t index = 0; index < query_sequences_->count(); ++index) {
    const Tensor query = query_sequences_->part(query_, index), key = key_sequences_->part(key_, index);
    const Tensor value = key_sequences_->part(value_, index);
    const Weighting one = weighting(index, query, key, first);
    out.push_back({query, key, value, one});
    first += query.sym_size(1) * query.sym_size(2) * key.sym_size(2);
  }
  return out;
}

Weighting FusionAttention::weighting(int64_t index, const Tensor& query, const Tensor& key,
                                     const c10::SymInt& first) const {
  const MaskRule rule = query_sequences_ ? rule_of_sequence(rule_, index, query_sequences_->count()) : rule_;
  const std::array<c10::SymInt, 4> sizes{query.sym_size(0), query.sym_size(1), query.sym_size(2), key.sym_size(2)};
  Weighting out;
  out.scale = scale_;
  out.bias = bias(index, query, key);
  out.dropped = dropped(index, query, key);
  out.causal = is_causal(rule, query.sym_size(2), key.sym_size(2));
  out.sink = sink_;
  out.kept = dropout_.kept(first, sizes, query);
  out.keep_prob = dropout_.keep_prob();
  return out;
}

Tensor FusionAttention::part(const Tensor& given, int64_t index) const {
  if (!query_sequences_) return given;
  return part_of_sequence(given, index, query_sequences_->length(index), key_sequences_->length(index));
}

Tensor FusionAttention::dropped(int64_t index, const Tensor& query, const Tensor& key) const {
  const c10::SymInt &rows = query.sym_size(2), &columns = key.sym_size(2);
  const bool uses_mask = rule_.sparse_mode < 2;
  const Tensor mask = uses_mask ? part(mask_, index) : Tensor();
  MaskRule rule = query_sequences_ ? rule_of_sequence(rule_, index, query_sequences_->count()) : rule_;
  if (prefix_.empty() || query_sequences_) {
    if (!prefix_.empty()) rule.prefix = prefix_.at(index);
    return dropped_by(op_, rule, mask, query, rows, columns);
  }
  std::vector<Tensor> batches;
  for (const int64_t prefix : prefix_) {
    rule.prefix = prefix;
    batches.push_back(dropped_by(op_, rule, mask, query, rows, columns));
  }
  return at::stack(batches).unsqueeze(1);
}

Tensor FusionAttention::bias(int64_t index, const Tensor& query, const Tensor& key) const {
  if (!pse_.defined()) return {};
  if (pse_type_ == 0) return part(pse_, index);
  if (pse_type_ == 1) return wide(part(pse_, index)) * scale_;
  const auto options = query.options().dtype(at::kFloat);
  const Tensor row = at::arange(c10::Scalar(query.sym_size(2)), options).unsqueeze(1) + query_start_;
  const Tensor far = (row - at::arange(c10::Scalar(key.sym_size(2)), options) - key_start_).abs();
  const Tensor slopes = query_sequences_ && pse_.sym_size(0) != 1 ? pse_.narrow(0, index, 1) : pse_;
  return wide(slopes).neg() * (pse_type_ == 2 ? far : far.sqrt());
}

Tensor FusionAttention::joined_queries(const std::vector<Tensor>& parts) const {
  return from_heads(query_sequences_ ? query_sequences_->join(parts, query_.sym_size(2)) : parts.front(), axes_);
}

Tensor FusionAttention::joined_keys(const std::vector<Tensor>& parts) const {
  return from_heads(key_sequences_ ? key_sequences_->join(parts, key_.sym_size(2)) : parts.front(), axes_);
}

Tensor FusionAttention::joined_statistics(const std::vector<Tensor>& parts) const {
  const Tensor all = query_sequences_ ? query_sequences_->join(parts, query_.sym_size(2)) : parts.front();
  return statistics_from_heads(all.expand({-1, -1, -1, kStatisticsCopies}), axes_);
}

Tensor FusionAttention::queries_of(const char* name, const Tensor& tensor, size_t piece) const {
  const Tensor all = to_heads(op_, name, tensor, axes_, query_.sym_size(1));
  return query_sequences_ ? query_sequences_->part(all, piece) : all;
}

Tensor FusionAttention::statistics_of(const Tensor& tensor, size_t piece) const {
  const Tensor all = statistics_to_heads(tensor, axes_).narrow(-1, 0, 1);
  return query_sequences_ ? query_sequences_->part(all, piece) : all;
}

Tensor FusionAttention::gradient_of_pse(const std::vector<Tensor>& scores) const {
  if (!pse_.defined() || pse_type_ > 1) return query_.new_empty({0});
  const c10::SymInt rows = pse_.sym_size(2), columns = pse_.sym_size(3);
  std::vector<Tensor> parts;
  for (const Tensor& of_scores : scores) {
    const Tensor by_rows = rows == 1 ? of_scores.sum(2, /*keepdim=*/true) : of_scores;
    const Tensor by_heads = pse_.sym_size(1) == 1 ? by_rows.sum(1, /*keepdim=*/true) : by_rows;
    const std::array<c10::SymInt, 4> pad{0, columns - by_heads.sym_size(3), 0, rows - by_heads.sym_size(2)};
    parts.push_back(query_sequences_ ? at::constant_pad_nd_symint(by_heads, pad) : by_heads);
  }
  Tensor out = at::cat(parts, 0);
  if (pse_.sym_size(0) == 1) out = out.sum(0, /*keepdim=*/true);
  if (pse_type_ == 1) out = out * scale_;
  return out.reshape_symint(pse_given_.sym_sizes()).to(pse_given_.scalar_type());
}

}  // namespace npugraph::npu_ops
