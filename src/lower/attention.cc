// SPDX-License-Identifier: Apache-2.0
#include "lower/attention.h"

#include "ops/table.h"
#include "target/target.h"

namespace npugraph::lower {
namespace {

// Arguments of the operator.
enum : size_t { kQuery, kKey, kValue, kDropout, kCausal, kMask, kScale };

const ir::TensorType* tensor(const ir::Graph& graph, const Attr& arg) {
  const auto* ref = std::get_if<TensorRef>(&arg);
  if (ref == nullptr || ref->id == TensorRef::kAbsent || !graph.value(ref->id).is_tensor()) return nullptr;
  return &graph.value(ref->id).tensor();
}

std::optional<double> as_number(const Attr& arg) {
  const auto* number = std::get_if<Expr>(&arg);
  if (number == nullptr || !number->is_constant()) return {};
  return number->value().as_float();
}

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

}  // namespace

std::optional<AttentionChoice> choose_attention(const ir::Graph& graph, const ir::Uses& uses, const ir::Node& node) {
  static const ir::Op* kFlash = &ops::require("aten._scaled_dot_product_flash_attention_for_cpu");
  if (node.op != kFlash || node.results.size() != 2) return {};
  AttentionChoice choice;
  const ir::TensorType* q = tensor(graph, node.args[kQuery]);
  if (!are_heads(q, tensor(graph, node.args[kKey]), tensor(graph, node.args[kValue]))) return {};
  if (as_number(node.args[kDropout]) != 0.0) return {};
  const auto causal = as_number(node.args[kCausal]);
  if (!causal) return {};
  choice.attention.causal = *causal != 0;
  for (const size_t arg : {kQuery, kKey, kValue}) choice.reads.push_back(std::get<TensorRef>(node.args[arg]).id);
  if (!std::holds_alternative<None>(node.args[kMask])) {
    if (!is_mask(tensor(graph, node.args[kMask]))) return {};
    choice.attention.mask = true;
    choice.reads.push_back(std::get<TensorRef>(node.args[kMask]).id);
  }
  if (!std::holds_alternative<None>(node.args[kScale])) {
    choice.attention.scale = as_number(node.args[kScale]);
    if (!choice.attention.scale) return {};
  }
  const ir::ValueId result = node.results[0], logsumexp = node.results[1];
  if (result == ir::kNone || !graph.value(result).tensor().strides.back().is_int(1)) return {};
  choice.writes.push_back(result);
  choice.attention.logsumexp = is_read(uses, logsumexp);
  if (choice.attention.logsumexp) choice.writes.push_back(logsumexp);
  return choice;
}

}  // namespace npugraph::lower
