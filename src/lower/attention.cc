// SPDX-License-Identifier: Apache-2.0
#include "loop/attention.h"

#include "lower/arguments.h"
#include "lower/generated_node.h"
#include "ops/table.h"
#include "target/target.h"

namespace npugraph::lower {
namespace {

// Arguments of the operator.
enum : size_t { kQuery, kKey, kValue, kDropout, kCausal, kMask, kScale };

bool is_element(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || (dtype == DType::kF16 && target::host_target().f16c);
}

// Whether queries, keys and values are [b, heads, rows, elements] of one type, with whole groups of query heads (which the
// operator demands of symbolic numbers too).
bool are_heads(const ir::TensorType* q, const ir::TensorType* k, const ir::TensorType* v) {
  for (const ir::TensorType* type : {q, k, v}) {
    if (type == nullptr || type->sizes.size() != 4 || type->dtype != q->dtype) return false;
  }
  const auto heads = q->sizes[1].as_int(), groups = k->sizes[1].as_int();
  const bool whole = !heads || !groups || (*groups > 0 && *heads % *groups == 0);
  return is_element(q->dtype) && whole && v->sizes[1] == k->sizes[1];
}

bool is_mask(const ir::TensorType* mask) {
  return mask != nullptr && is_element(mask->dtype) && (mask->sizes.size() == 2 || mask->sizes.size() == 4);
}

bool is_read(const ir::Uses& uses, ir::ValueId value) {
  return value != ir::kNone && (!uses.users[value].empty() || uses.output_uses[value] > 0);
}

// The words of the text; nothing where an argument is not what code can be generated for.
std::optional<loop::Attention> describe(const ir::Graph& graph, const ir::Node& node) {
  const ir::TensorType* q = tensor_argument(graph, node, kQuery);
  if (!are_heads(q, tensor_argument(graph, node, kKey), tensor_argument(graph, node, kValue))) return {};
  const auto dropout = constant_argument(node, kDropout), causal = constant_argument(node, kCausal);
  if (!dropout || dropout->as_float() != 0.0 || !causal) return {};
  loop::Attention attention{.causal = causal->as_bool()};
  attention.mask = !std::holds_alternative<None>(node.args[kMask]);
  if (attention.mask && !is_mask(tensor_argument(graph, node, kMask))) return {};
  if (!std::holds_alternative<None>(node.args[kScale])) {
    const auto scale = constant_argument(node, kScale);
    if (!scale) return {};
    attention.scale = scale->as_float();
  }
  return attention;
}

}  // namespace

std::optional<GeneratedNode> choose_attention(const ir::Graph& graph, const ir::Uses& uses, const ir::Node& node) {
  static const ir::Op* kFlash = &ops::require("aten._scaled_dot_product_flash_attention_for_cpu");
  if (node.op != kFlash || node.results.size() != 2) return {};
  auto attention = describe(graph, node);
  if (!attention) return {};
  const ir::ValueId result = node.results[0], logsumexp = node.results[1];
  if (result == ir::kNone || !graph.value(result).tensor().strides.back().is_int(1)) return {};
  attention->logsumexp = is_read(uses, logsumexp);

  GeneratedNode generated{.kind = program::TaskKind::kAttention, .name = "attention", .text = loop::print(*attention)};
  for (const size_t arg : {kQuery, kKey, kValue}) generated.reads.push_back(std::get<TensorRef>(node.args[arg]).id);
  if (attention->mask) generated.reads.push_back(std::get<TensorRef>(node.args[kMask]).id);
  generated.writes = {result};
  if (attention->logsumexp) generated.writes.push_back(logsumexp);
  return generated;
}

}  // namespace npugraph::lower
