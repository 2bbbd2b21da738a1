// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/error.h"
#include "ge/import/rules.h"
#include "ops/operators.h"
#include "tensor/shape.h"

namespace npugraph::ge {

namespace {

// [batch, tokens, heads * width] as [batch, heads, tokens, width]
ir::ValueId heads_apart(const Call& call, ir::ValueId x, int64_t heads) {
  Context& context = call.context();
  const std::vector<Expr> sizes = context.sizes(x);
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

// Attention of queries to keys with a mask that is added to the scores. Neighbouring heads of the query share one of
// key and value if these have fewer. Without a mask, `next_tokens` 0 hides later keys from a query, and a negative or
// large value hides none.
std::vector<Operand> prompt_flash_attention(const Call& call) {
  for (const std::string_view name : {"actual_seq_lengths", "actual_seq_lengths_kv", "deq_scale1", "quant_scale1",
                                      "deq_scale2", "quant_scale2", "quant_offset2", "atten_mask"}) {
    if (call.has(name)) call.fail(cat("its input '", name, "' has no rule"));
  }
  if (call.attr_int("sparse_mode") != 0) call.fail("its attribute 'sparse_mode' has to be 0");
  const std::string layout = call.attr_string("input_layout");
  const bool is_flat = layout == "BSH";
  if (!is_flat && layout != "BNSD")
    call.fail(cat("its attribute 'input_layout' is 'BSH' or 'BNSD', got '", layout, "'"));

  Context& context = call.context();
  const int64_t heads = call.attr_int("num_heads");
  const int64_t stated = call.attr_int("num_key_value_heads"), kv_heads = stated == 0 ? heads : stated;
  if (heads <= 0 || kv_heads <= 0 || heads % kv_heads != 0)
    call.fail(cat("its attribute 'num_heads', ", heads, ", is a multiple of 'num_key_value_heads', ", kv_heads));
  ir::ValueId query = call.value("query"), key = call.value("key"), value = call.value("value");
  if (is_flat) {
    query = heads_apart(call, query, heads);
    key = heads_apart(call, key, kv_heads);
    value = heads_apart(call, value, kv_heads);
  }
  check_heads(call, query, key, value, heads, kv_heads);
  const bool is_causal = !call.has("pse_shift") && call.attr_int("next_tokens") == 0;
  const auto results = context.add_all(aten::_scaled_dot_product_flash_attention_for_cpu::op(),
                                       {TensorRef{query}, TensorRef{key}, TensorRef{value}, number(0), flag(is_causal),
                                        call.argument("pse_shift"), number(call.attr_float("scale_value"))});
  if (!is_flat) return one(results.front());
  const ir::ValueId tokens = context.add(aten::transpose_int::op(), {TensorRef{results.front()}, Expr(1), Expr(2)});
  const std::vector<Expr> sizes = context.sizes(tokens);
  return one(reshape(context, tokens, {sizes[0], sizes[1], sizes[2] * sizes[3]}));
}

constexpr auto kAttentionRules = std::to_array<RuleRow>({
    {"PromptFlashAttention", prompt_flash_attention},
});

}  // namespace

std::span<const RuleRow> attention_rules() { return kAttentionRules; }

}  // namespace npugraph::ge
