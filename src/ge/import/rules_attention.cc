// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/error.h"
#include "ge/import/results.h"
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

// Attention of queries to keys with a mask that is added to the scores. Without a mask, `next_tokens` 0 hides later
// keys from a query, and a negative or large value hides none.
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
  ir::ValueId query = call.value("query"), key = call.value("key"), value = call.value("value");
  if (is_flat) {
    query = heads_apart(call, query, heads);
    key = heads_apart(call, key, kv_heads);
    value = heads_apart(call, value, kv_heads);
  }
  if (heads != kv_heads) call.fail("its query has as many heads as its key");
  const bool is_causal = !call.has("pse_shift") && call.attr_int("next_tokens") == 0;
  const auto results = context.add_all(aten::_scaled_dot_product_flash_attention_for_cpu::op(),
                                       {TensorRef{query}, TensorRef{key}, TensorRef{value}, number(0), flag(is_causal),
                                        call.argument("pse_shift"), number(call.attr_float("scale_value"))});
  if (!is_flat) return one(results.front());
  const ir::ValueId tokens = context.add(aten::transpose_int::op(), {TensorRef{results.front()}, Expr(1), Expr(2)});
  const std::vector<Expr> sizes = context.sizes(tokens);
  return one(reshape(context, tokens, {sizes[0], sizes[1], sizes[2] * sizes[3]}));
}

constexpr auto kRows = std::to_array<RuleRow>({
    {"PromptFlashAttention", prompt_flash_attention},
});

}  // namespace

std::span<const RuleRow> attention_rules() { return kRows; }

}  // namespace npugraph::ge
