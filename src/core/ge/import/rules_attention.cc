// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>

#include "base/error.h"
#include "ge/import/rules.h"
#include "ops/operators.h"
#include "tensor/shape.h"

namespace npugraph::ge {

namespace {

// [batch, tokens, heads * width] of the layout BSH, or [batch, tokens, heads, width] of BSND, as [batch, heads, tokens,
// width].
ir::ValueId heads_apart(const Call& call, ir::ValueId x, int64_t heads, std::string_view layout) {
  Context& context = call.context();
  const std::vector<Expr> sizes = context.sizes(x);
  if (layout == "BSND") {
    if (sizes.size() != 4) call.fail("tensors of the layout 'BSND' have 4 dimensions");
    return context.add(aten::transpose_int::op(), {TensorRef{x}, Expr(1), Expr(2)});
  }
  if (sizes.size() != 3) call.fail("tensors of the layout 'BSH' have 3 dimensions");
  const Expr width = Expr::make(ExprOp::kFloorDiv, {sizes[2], Expr(heads)});
  const ir::ValueId apart = reshape(context, x, {sizes[0], sizes[1], Expr(heads), width});
  return context.add(aten::transpose_int::op(), {TensorRef{apart}, Expr(1), Expr(2)});
}

// Demands [batch, heads, rows, width] of the query, [batch, kv_heads, rows, width] of key and value, and a mask that
// can be broadcast to the scores.
void check_heads(const Call& call, ir::ValueId query, ir::ValueId key, ir::ValueId value, int64_t heads,
                 int64_t kv_heads) {
  Context& context = call.context();
  for (const ir::ValueId x : {query, key, value}) {
    if (context.sizes(x).size() != 4) call.fail("tensors of the layout 'BNSD' have 4 dimensions");
    context.require_equal(context.sizes(query)[0], context.sizes(x)[0]);
    context.require_equal(context.sizes(x)[1], Expr(x == query ? heads : kv_heads));
  }
  context.require_equal(context.sizes(query)[3], context.sizes(key)[3]);
  context.require_equal(context.sizes(key)[2], context.sizes(value)[2]);
  if (!call.has("pse_shift")) return;
  const std::vector<Expr> mask = context.sizes(call.value("pse_shift")), &q = context.sizes(query);
  const std::vector<Expr> scores = {q[0], q[1], q[2], context.sizes(key)[2]};
  if (mask.size() > scores.size()) call.fail(cat("its input 'pse_shift' has at most 4 dimensions, got ", mask.size()));
  for (size_t d = 0; d < mask.size(); ++d) {
    if (!mask[d].is_int(1)) context.require_equal(mask[d], scores[scores.size() - mask.size() + d]);
  }
}

// The attention of the inputs of a call, in its layout, with what is added to the scores. Neighbouring heads of the
// query share one of key and value if these have fewer.
ir::ValueId attention(const Call& call, std::array<ir::ValueId, 3> of, Attr mask, bool is_causal, double scale) {
  Context& context = call.context();
  const std::string layout = call.attr_string("input_layout");
  const int64_t heads = call.attr_int("num_heads");
  const int64_t stated = call.attr_int("num_key_value_heads"), kv_heads = stated == 0 ? heads : stated;
  if (heads <= 0 || kv_heads <= 0 || heads % kv_heads != 0)
    call.fail(cat("its attribute 'num_heads', ", heads, ", is a multiple of 'num_key_value_heads', ", kv_heads));
  const bool has_heads_first = layout == "BNSD";
  for (size_t i = 0; i < of.size() && !has_heads_first; ++i)
    of[i] = heads_apart(call, of[i], i == 0 ? heads : kv_heads, layout);
  check_heads(call, of[0], of[1], of[2], heads, kv_heads);
  const auto results = context.add_all(aten::_scaled_dot_product_flash_attention_for_cpu::op(),
                                       {TensorRef{of[0]}, TensorRef{of[1]}, TensorRef{of[2]}, number(0),
                                        flag(is_causal), std::move(mask), number(scale)});
  if (has_heads_first) return results.front();
  const ir::ValueId tokens = context.add(aten::transpose_int::op(), {TensorRef{results.front()}, Expr(1), Expr(2)});
  if (layout == "BSND") return tokens;
  const std::vector<Expr> sizes = context.sizes(tokens);
  return reshape(context, tokens, {sizes[0], sizes[1], sizes[2] * sizes[3]});
}

// Without a mask, `next_tokens` 0 hides later keys from a query, and a negative or large value hides none.
std::vector<Operand> prompt_flash_attention(const Call& call) {
  for (const std::string_view name : {"actual_seq_lengths", "actual_seq_lengths_kv", "deq_scale1", "quant_scale1",
                                      "deq_scale2", "quant_scale2", "quant_offset2", "atten_mask"}) {
    if (call.has(name)) call.fail(cat("its input '", name, "' has no rule"));
  }
  if (call.attr_int("sparse_mode") != 0) call.fail("its attribute 'sparse_mode' has to be 0");
  const std::string layout = call.attr_string("input_layout");
  if (layout != "BSH" && layout != "BNSD")
    call.fail(cat("its attribute 'input_layout' is 'BSH' or 'BNSD', got '", layout, "'"));
  const bool is_causal = !call.has("pse_shift") && call.attr_int("next_tokens") == 0;
  return one(attention(call, {call.value("query"), call.value("key"), call.value("value")}, call.argument("pse_shift"),
                       is_causal, call.attr_float("scale_value")));
}

// What hides the keys from the length of a sequence on: [batch, 1, 1, keys] of `dtype`, 0 or -infinity.
ir::ValueId hidden_from(Context& context, ir::ValueId lengths, const Expr& batch, const Expr& keys, DType dtype) {
  context.require_equal(context.sizes(lengths).at(0), batch);
  const std::vector<Expr> front = {batch, Expr(1), Expr(1), Expr(1)}, all = {batch, Expr(1), Expr(1), keys};
  const ir::ValueId place = counted(context, keys), end = reshape(context, lengths, front);
  const ir::ValueId is_hidden = context.add(aten::ge_Tensor::op(), {TensorRef{place}, TensorRef{end}});
  const ir::ValueId zeros = context.add(aten::full::op(), {all, Expr(0), dtype, None{}, context.device()});
  return context.add(aten::masked_fill_Scalar::op(),
                     {TensorRef{zeros}, TensorRef{is_hidden}, number(-std::numeric_limits<double>::infinity())});
}

// Attention to the first keys of each sequence, as many as `actual_seq_lengths_kv` says.
std::vector<Operand> fused_infer_attention_score(const Call& call) {
  const auto keys = call.list("key"), values = call.list("value");
  const std::string layout = call.attr_string("input_layout");
  const bool is_flat = layout == "BSH";
  if (keys.size() != 1 || values.size() != 1 || !call.has("actual_seq_lengths_kv"))
    call.fail("it has a rule for one 'key', one 'value' and 'actual_seq_lengths_kv'");
  for (const std::string_view name :
       {"pse_shift", "atten_mask", "actual_seq_lengths", "block_table", "query_padding_size", "kv_padding_size",
        "key_shared_prefix", "value_shared_prefix", "query_rope", "key_rope", "quant_scale2", "antiquant_scale",
        "key_antiquant_scale", "value_antiquant_scale", "learnable_sink"}) {
    if (call.has(name)) call.fail(cat("its input '", name, "' has no rule"));
  }
  if (call.attr_int("sparse_mode") != 0) call.fail("its attribute 'sparse_mode' has to be 0");
  if (call.attr_bool("softmax_lse_flag")) call.fail("its attribute 'softmax_lse_flag' has to be false");
  if (!is_flat && layout != "BNSD" && layout != "BSND")
    call.fail(cat("its attribute 'input_layout' is 'BSH', 'BNSD' or 'BSND', got '", layout, "'"));
  Context& context = call.context();
  const ir::ValueId query = call.value("query"), key = context.value_of(*keys[0]), value = context.value_of(*values[0]);
  const std::vector<Expr> sizes = context.sizes(key);
  const Expr count = sizes.at(layout == "BNSD" ? 2 : 1);
  const ir::ValueId mask =
      hidden_from(context, call.value("actual_seq_lengths_kv"), sizes.at(0), count, context.type(query).dtype);
  const ir::ValueId made = attention(call, {query, key, value}, TensorRef{mask}, false, call.attr_float("scale"));
  const std::vector<Expr> none = {Expr(0)};
  return all({made, context.add(aten::full::op(), {none, Expr(0), DType::kF32, None{}, context.device()})});
}

constexpr auto kAttentionRules = std::to_array<RuleRow>({
    {"FusedInferAttentionScore", fused_infer_attention_score},
    {"PromptFlashAttention", prompt_flash_attention},
});

}  // namespace

std::span<const RuleRow> attention_rules() { return kAttentionRules; }

}  // namespace npugraph::ge
