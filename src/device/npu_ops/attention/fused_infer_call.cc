// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/attention/fused_infer_call.h"

#include <algorithm>

#include "device/npu_ops/attention/varlen_call.h"
#include "device/npu_ops/quantisation/quantisation.h"

namespace npugraph::npu_ops {
namespace {

constexpr int64_t kLastInferSparseMode = 4;

std::optional<int64_t> padding_of(const Tensor& tensor) {
  return tensor.defined() ? std::make_optional(values_of(tensor).front()) : std::nullopt;
}

// Quantisation of keys (index 0) or values (index 1), by the argument names of all versions.
Quantisation quantisation_of(const CallArguments& call, int64_t index) {
  const bool key = index == 0;
  Quantisation out{
      .scale = key ? call.optional_tensor({"key_antiquant_scale", "dequant_scale_key"})
                   : call.optional_tensor({"value_antiquant_scale", "dequant_scale_value"}),
      .offset = key ? call.optional_tensor({"key_antiquant_offset", "dequant_offset_key"})
                    : call.optional_tensor({"value_antiquant_offset", "dequant_offset_value"}),
      .mode = key ? call.integer({"key_antiquant_mode", "key_quant_mode"})
                  : call.integer({"value_antiquant_mode", "value_quant_mode"}),
  };
  const Tensor scales = call.optional_tensor({"antiquant_scale"}), offsets = call.optional_tensor({"antiquant_offset"});
  if (out.scale.defined() || !scales.defined()) return out;
  return {scales.select(0, index), offsets.defined() ? offsets.select(0, index) : Tensor(),
          call.integer({"antiquant_mode"})};
}

PageForm form_of(const char* op, const char* name, const Tensor& cache) {
  check_dims(op, name, cache, 3, 5);
  return cache.dim() == 3 ? PageForm::kBnBsH : cache.dim() == 4 ? PageForm::kBnNBsD : PageForm::kNz;
}

int64_t infer_heads_of(const CallArguments& call) { return call.integer({"num_heads", "num_query_heads"}, 1); }

int64_t infer_key_heads_of(const CallArguments& call) {
  const int64_t given = call.integer({"num_key_value_heads"}), heads = infer_heads_of(call);
  const int64_t out = given == 0 ? heads : given;
  TORCH_CHECK(out > 0 && heads % out == 0, call.op(), ": num_key_value_heads is ", given,
              ", allowed are 0 and divisors of the number of heads, ", heads);
  return out;
}

Layout call_layout(const CallArguments& call) { return layout_of(call.op(), call.text({"input_layout"})); }

Tensor infer_queries_of(const CallArguments& call) {
  const Tensor out = to_heads(call.op(), "query", call.tensor({"query"}), call_layout(call).in, infer_heads_of(call));
  TORCH_CHECK(out.sym_size(1) == infer_heads_of(call), call.op(), ": the number of heads is ", infer_heads_of(call),
              ", and query has ", out.sym_size(1));
  return out;
}

StoredRows infer_rows_of(const CallArguments& call, const char* name) {
  const Tensor& tensor = call.tensor({name});
  if (call.optional_tensor({"block_table"}).defined())
    return StoredRows(tensor, form_of(call.op(), name, tensor), infer_key_heads_of(call));
  return StoredRows(call.op(), name, tensor, call_layout(call).in, infer_key_heads_of(call));
}

bool is_quantised_type(at::ScalarType type) { return c10::elementSize(type) == 1; }

at::ScalarType result_type_of(const CallArguments& call) {
  const at::ScalarType query = call.tensor({"query"}).scalar_type();
  const Tensor rope = call.optional_tensor({"query_rope"});
  at::ScalarType type = query;
  if (is_quantised_type(query)) type = rope.defined() ? rope.scalar_type() : at::kHalf;
  if (call.optional_tensor({"quant_scale2", "quant_scale_out"}).defined()) type = at::kChar;
  return type_of_code(call.op(), "out_dtype", call.optional_integer({"out_dtype"}), type);
}

bool wants_lse(const CallArguments& call) { return call.flag({"softmax_lse_flag", "return_softmax_lse"}); }

// One scale for all elements or one for each element of each head, shaped to broadcast with
// [batches, heads, rows, size].
Tensor for_heads(const Tensor& scale, const c10::SymInt& heads) {
  if (!scale.defined()) return scale;
  return wide(scale.sym_numel() == 1 ? scale.reshape({1, 1, 1, 1}) : scale.reshape_symint({1, heads, 1, -1}));
}

// Checks that the types that a call names for its tensors are the types of these tensors.
void check_named_types(const CallArguments& call) {
  for (const char* name : {"query", "key", "value", "query_rope", "key_rope", "dequant_scale_query",
                           "dequant_scale_key", "dequant_scale_value", "dequant_scale_key_rope"}) {
    const std::string type_name = std::string(name) + "_dtype";
    const auto code = call.optional_integer({type_name.c_str()});
    const Tensor tensor = call.optional_tensor({name});
    if (!code || !tensor.defined()) continue;
    if (tensor.scalar_type() == at::kInt && quant_type(call.op(), type_name.c_str(), code).is_int4) continue;
    const at::ScalarType named = type_of_code(call.op(), type_name.c_str(), code, tensor.scalar_type());
    TORCH_CHECK(named == tensor.scalar_type(), call.op(), ": ", type_name, " is ", named, ", and ", name,
                " is of type ", tensor.scalar_type());
  }
}

// Checks that keys and values are quantised or have the type of queries, unless queries are quantised.
void check_types_of_rows(const CallArguments& call) {
  const at::ScalarType query = call.tensor({"query"}).scalar_type();
  if (is_quantised_type(query)) return;
  for (const char* name : {"key", "value"}) {
    const at::ScalarType type = call.tensor({name}).scalar_type();
    TORCH_CHECK(!at::isFloatingType(type) || is_quantised_type(type) || type == query, call.op(), ": ", name,
                " is of type ", type, ", allowed are ", query, ", which query is, and quantised types");
  }
}

}  // namespace

InferAttention::InferAttention(const CallArguments& call)
    : op_(call.op()), layout_(call_layout(call)), query_(infer_queries_of(call)), wants_lse_(wants_lse(call)) {
  check_named_types(call);
  check_types_of_rows(call);
  take_queries(call);
  take_keys(call);
  take_weighting(call);
  take_prefix(call);
  take_result(call);
}

// One scale for all rows, one for each row of each head or, in mode 7, one for each block of rows of each head.
Tensor InferAttention::scale_of_queries(const CallArguments& call, const Tensor& scale) const {
  if (scale.sym_numel() == 1) return scale.reshape({1, 1, 1, 1});
  if (call.integer({"query_quant_mode"}) == 7) return scale_of_blocks(op_, "query", scale, query_);
  const Axes axes = layout_.in == Axes::kBSH ? Axes::kBSND : layout_.in;
  return to_heads(op_, "dequant_scale_query", scale.unsqueeze(-1), axes, infer_heads_of(call));
}

void InferAttention::take_queries(const CallArguments& call) {
  const Tensor& query = call.tensor({"query"});
  check_type(op_, "query", query,
             {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble, at::kChar, at::kFloat8_e4m3fn, at::kFloat8_e5m2});
  const Tensor scale = call.optional_tensor({"dequant_scale_query"});
  if (scale.defined()) query_ = wide(query_) * wide(scale_of_queries(call, scale));
  const Tensor rope = call.optional_tensor({"query_rope"});
  if (rope.defined()) query_rope_ = to_heads(op_, "query_rope", rope, layout_.in, infer_heads_of(call));
  // Queries of npu_incre_flash_attention are the tokens that are decoded, and have no lengths.
  const bool decodes = std::string_view(op_) == "npu_incre_flash_attention";
  if (!decodes) query_lengths_ = call.integers({"actual_seq_lengths", "actual_seq_qlen"});
  // The device treats these calls as decoding: there is one row of queries, even if a length is larger.
  const bool is_prompt = std::string_view(op_) == "npu_prompt_flash_attention";
  if (query_lengths_ && !is_prompt && !is_packed(layout_.in) && query_.size(2) == 1)
    for (int64_t& length : *query_lengths_) length = std::min<int64_t>(length, 1);
  key_lengths_ =
      decodes ? call.integers({"actual_seq_lengths"}) : call.integers({"actual_seq_lengths_kv", "actual_seq_kvlen"});
  query_padding_ = padding_of(call.optional_tensor({"query_padding_size"}));
  key_padding_ = padding_of(call.optional_tensor({"kv_padding_size"}));
}

void InferAttention::take_keys(const CallArguments& call) {
  table_ = call.optional_tensor({"block_table"});
  key_ = infer_rows_of(call, "key");
  value_ = infer_rows_of(call, "value");
  key_->set_quantisation(op_, "key", quantisation_of(call, 0));
  value_->set_quantisation(op_, "value", quantisation_of(call, 1));
  const Tensor rope = call.optional_tensor({"key_rope"});
  TORCH_CHECK(rope.defined() == query_rope_.defined(), op_, ": query_rope and key_rope go together");
  if (!rope.defined()) return;
  key_rope_ = infer_rows_of(call, "key_rope");
  key_rope_->set_quantisation(op_, "key_rope",
                              {.scale = call.optional_tensor({"key_rope_antiquant_scale", "dequant_scale_key_rope"})});
}

void InferAttention::take_weighting(const CallArguments& call) {
  scale_ = call.number({"scale", "scale_value", "softmax_scale"}, 1);
  rule_ = {.sparse_mode = call.integer({"sparse_mode"}),
           .pre_tokens = call.integer({"pre_tokens"}, kAllTokens),
           .next_tokens = call.integer({"next_tokens"}, kAllTokens)};
  check_rule(op_, rule_, kLastInferSparseMode);
  const c10::SymInt rows = query_.sym_size(2);
  // A single row sees all keys in every mode.
  if (rule_.sparse_mode > 1 && !is_packed(layout_.in) && !query_rope_.defined() && rows == 1)
    rule_.sparse_mode = 0;
  else if (rule_.sparse_mode < 2)
    mask_ = with_four_dims(call.optional_tensor({"atten_mask"}), rows);
  bias_ = with_four_dims(call.optional_tensor({"pse_shift"}), rows);
  sink_ = call.optional_tensor({"learnable_sink"});
  if (!is_quantised_type(call.tensor({"query"}).scalar_type())) return;
  score_factor_ = call.optional_tensor({"dequant_scale1", "deq_scale1"});
  const Tensor weight_scale = call.optional_tensor({"quant_scale1"});
  result_factor_ = for_heads(call.optional_tensor({"dequant_scale2", "deq_scale2"}), query_.sym_size(1));
  if (weight_scale.defined() && result_factor_.defined()) result_factor_ = result_factor_ * wide(weight_scale);
}

void InferAttention::take_prefix(const CallArguments& call) {
  const Tensor key = call.optional_tensor({"key_shared_prefix"}), value = call.optional_tensor({"value_shared_prefix"});
  TORCH_CHECK(key.defined() == value.defined(), op_, ": key_shared_prefix and value_shared_prefix go together");
  if (!key.defined()) return;
  // Dequantised, like keys and values.
  const auto prefix = [&](const char* name, const Tensor& tensor, int64_t index) {
    StoredRows rows(op_, name, tensor, layout_.in, infer_key_heads_of(call));
    rows.set_quantisation(op_, name, quantisation_of(call, index));
    return rows.all();
  };
  key_prefix_ = prefix("key_shared_prefix", key, 0);
  value_prefix_ = prefix("value_shared_prefix", value, 1);
  const GivenLengths length = call.integers({"actual_shared_prefix_len"});
  if (!length || length->empty()) return;
  key_prefix_ = key_prefix_.narrow(2, 0, length->front());
  value_prefix_ = value_prefix_.narrow(2, 0, length->front());
}

void InferAttention::take_result(const CallArguments& call) {
  const at::ScalarType query = call.tensor({"query"}).scalar_type();
  result_scale_ = for_heads(call.optional_tensor({"quant_scale2", "quant_scale_out"}), query_.sym_size(1));
  result_offset_ = for_heads(call.optional_tensor({"quant_offset2", "quant_offset_out"}), query_.sym_size(1));
  type_ = result_type_of(call);
  const auto differs = [&](const StoredRows& rows) { return rows.stored().scalar_type() != query; };
  in_float32_ = is_quantised_type(query) || result_scale_.defined() || differs(*key_) || differs(*value_);
}

Tensor InferAttention::in_common_type(const Tensor& tensor) const { return in_float32_ ? wide(tensor) : tensor; }

InferAttention::Lengths InferAttention::lengths() const {
  const auto packed = [&](const char* name, const GivenLengths& ends) {
    TORCH_CHECK(ends, op_, ": layouts with T need ", name);
    return Sequences::packed(from_ends(op_, name, *ends));
  };
  const char* query_name = "the lengths of queries";
  const char* key_name = "the lengths of keys";
  const bool with_t = is_packed(layout_.in);
  Lengths out{.queries = with_t ? packed(query_name, query_lengths_)
                                : Sequences::batched(op_, query_name, query_lengths_, query_, query_padding_)};
  KeyRows& keys = out.keys;
  keys.table = table_;
  if (table_.defined()) {
    TORCH_CHECK(key_lengths_, op_, ": block_table needs ", key_name);
    keys.lengths = *key_lengths_;
  } else {
    keys.sequences = with_t ? packed(key_name, key_lengths_)
                            : Sequences::batched(op_, key_name, key_lengths_, key_->stored(), key_padding_);
    for (int64_t index = 0; index < keys.sequences->count(); ++index)
      keys.lengths.push_back(keys.sequences->length(index));
  }
  const int64_t count = out.queries.count();
  if (keys.lengths.size() == 1) keys.lengths.resize(count, keys.lengths.front());
  TORCH_CHECK(static_cast<int64_t>(keys.lengths.size()) == count, op_, ": there are ", count,
              " sequences of queries and ", keys.lengths.size(), " of keys");
  return out;
}

Weighting InferAttention::weighting(const Tensor& query, const Tensor& key, const Tensor& mask,
                                    const Tensor& bias) const {
  const c10::SymInt rows = query.sym_size(2), columns = key.sym_size(2);
  Weighting out;
  out.scale = scale_;
  out.bias = bias;
  out.dropped = dropped_by(op_, rule_, mask, query, rows, columns);
  out.causal = is_causal(rule_, rows, columns);
  out.sink = sink_;
  return out;
}

Attention InferAttention::attend_one(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Weighting& weighting) const {
  Tensor of_scores = in_common_type(query);
  if (score_factor_.defined()) of_scores = of_scores * wide(score_factor_);
  check_heads(op_, of_scores, key, value);
  if (wants_lse_ || sink_.defined())
    return attend_with_statistics(of_scores, in_common_type(key), in_common_type(value), weighting);
  return {.result = attend(of_scores, in_common_type(key), in_common_type(value), weighting)};
}

namespace {

Tensor with(const Tensor& first, const Tensor& second, int64_t dim) {
  return second.defined() ? at::cat({first, second.to(first.scalar_type())}, dim) : first;
}

// `prefix` before `rows`, for each batch.
Tensor after(const Tensor& prefix, const Tensor& rows) {
  if (!prefix.defined()) return rows;
  return at::cat({prefix.to(rows.scalar_type()).expand_symint({rows.sym_size(0), -1, -1, -1}), rows}, 2);
}

}  // namespace

Attention InferAttention::attend_all() const {
  const Tensor query = with(query_, query_rope_, -1);
  const Tensor key = with(after(key_prefix_, key_->all()), key_rope_ ? key_rope_->all() : Tensor(), -1);
  const Tensor value = after(value_prefix_, value_->all());
  return attend_one(query, key, value, weighting(query, key, mask_, bias_));
}

// Nothing if generated code does not compute such a call.
std::optional<Attention> InferAttention::attend_generated(const Lengths& lengths) const {
  const bool is_plain = rule_.sparse_mode != 1 && !mask_.defined() && !bias_.defined() && !sink_.defined() &&
                        !score_factor_.defined() && !key_prefix_.defined() && !in_float32_;
  if (!is_plain) return std::nullopt;
  const auto limit = [](int64_t tokens) { return tokens < kAllTokens ? std::make_optional(tokens) : std::nullopt; };
  const bool is_band = rule_.sparse_mode == 4, is_causal = rule_.sparse_mode == 2 || rule_.sparse_mode == 3;
  return attend_varlen({.query = query_,
                        .query_rope = query_rope_,
                        .queries = lengths.queries,
                        .key = *key_,
                        .value = *value_,
                        .key_rope = key_rope_ ? &*key_rope_ : nullptr,
                        .keys = lengths.keys,
                        .before = is_band ? limit(rule_.pre_tokens) : std::nullopt,
                        .after = is_causal ? std::make_optional<int64_t>(0)
                                 : is_band ? limit(rule_.next_tokens)
                                           : std::nullopt,
                        .at_end = rule_.sparse_mode != 2,
                        .scale = scale_,
                        .wants_lse = wants_lse_});
}

Attention InferAttention::attend_by_sequences() const {
  const Lengths all = lengths();
  if (const auto out = attend_generated(all)) return *out;
  std::vector<Tensor> results, lses;
  for (int64_t index = 0; index < all.queries.count(); ++index) {
    const auto rope = query_rope_.defined() ? all.queries.part(query_rope_, index) : Tensor();
    const Tensor query = with(all.queries.part(query_, index), rope, -1);
    const Tensor key =
        with(after(key_prefix_, all.keys.of(*key_, index)), key_rope_ ? all.keys.of(*key_rope_, index) : Tensor(), -1);
    const Tensor value = after(value_prefix_, all.keys.of(*value_, index));
    const int64_t rows = query.size(2), columns = key.size(2);
    const Attention one = attend_one(query, key, value,
                                     weighting(query, key, part_of_sequence(mask_, index, rows, columns),
                                               part_of_sequence(bias_, index, rows, columns)));
    results.push_back(one.result);
    if (wants_lse_) lses.push_back(one.lse());
  }
  const c10::SymInt rows = query_.sym_size(2);
  Attention out{.result = all.queries.join(results, rows)};
  if (!wants_lse_) return out;
  out.max = all.queries.join(lses, rows);
  out.sum = at::ones_like(out.max);
  return out;
}

Tensor InferAttention::in_result_type(const Tensor& result) const {
  const Tensor numbers = result_factor_.defined() ? result * result_factor_ : result;
  if (!result_scale_.defined()) return numbers.to(type_);
  const QuantType type = quant_type(op_, "out_dtype", static_cast<int64_t>(type_));
  return statically_quantised(op_, numbers, result_scale_, result_offset_, /*divide=*/false, type);
}

std::pair<Tensor, Tensor> InferAttention::compute() const {
  const Attention out = has_lengths() ? attend_by_sequences() : attend_all();
  const Tensor result = from_heads(in_result_type(out.result), layout_.out);
  if (!wants_lse_) return {result, result.new_empty({0}, result.options().dtype(at::kFloat))};
  return {result, statistics_from_heads(out.lse().to(at::kFloat), layout_.in)};
}

std::pair<Tensor, Tensor> empty_infer_results(const CallArguments& call) {
  const Tensor query = infer_queries_of(call);
  const Layout layout = call_layout(call);
  const auto of_size = [&](const c10::SymInt& size, at::ScalarType type) {
    return at::empty_symint({query.sym_size(0), query.sym_size(1), query.sym_size(2), size},
                            query.options().dtype(type));
  };
  const Tensor result = from_heads(of_size(infer_rows_of(call, "value").head_size(), result_type_of(call)), layout.out);
  const Tensor lse = wants_lse(call) ? statistics_from_heads(of_size(1, at::kFloat), layout.in)
                                     : result.new_empty({0}, result.options().dtype(at::kFloat));
  return {result, lse};
}

}  // namespace npugraph::npu_ops
