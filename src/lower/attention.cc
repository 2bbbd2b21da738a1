// SPDX-License-Identifier: Apache-2.0
#include "loop/attention.h"

#include "lower/arguments.h"
#include "lower/generated_node.h"
#include "ops/table.h"
#include "target/target.h"

namespace npugraph::lower {
namespace {

// Arguments of the operators.
constexpr size_t kQuery = 0, kKey = 1, kValue = 2;
constexpr size_t kFlashDropout = 3, kFlashCausal = 4, kFlashMask = 5, kFlashScale = 6;
constexpr size_t kMask = 3, kPosition = 4, kBefore = 5, kAfter = 6, kAtEnd = 7, kEmptyIsNan = 8, kScale = 9;

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

bool is_read(const ir::Uses& uses, ir::ValueId value) {
  return value != ir::kNone && (!uses.users[value].empty() || uses.output_uses[value] > 0);
}

bool is_absent(const ir::Node& node, size_t arg) { return std::holds_alternative<None>(node.args[arg]); }

// Puts a constant number into `to`; false where it is another one.
template <typename Number>
bool read_number(const ir::Node& node, size_t arg, std::optional<Number>& to) {
  if (is_absent(node, arg)) return true;
  const auto number = constant_argument(node, arg);
  if (!number) return false;
  if constexpr (std::is_same_v<Number, double>)
    to = number->as_float();
  else
    to = number->as_int();
  return true;
}

// A flash kernel has its booleans as numbers.
bool is_mask(const ir::TensorType* mask, bool booleans) {
  if (mask == nullptr || (!is_element(mask->dtype) && !(booleans && mask->dtype == DType::kBool))) return false;
  return mask->sizes.size() == 2 || mask->sizes.size() == 4;
}

// The words of the text; nothing where an argument is not what code can be generated for.
std::optional<loop::Attention> describe_flash(const ir::Node& node) {
  const auto dropout = constant_argument(node, kFlashDropout), causal = constant_argument(node, kFlashCausal);
  if (!dropout || dropout->as_float() != 0.0 || !causal) return {};
  loop::Attention attention{.mask = !is_absent(node, kFlashMask)};
  if (causal->as_bool()) attention.after = 0;
  if (!read_number(node, kFlashScale, attention.scale)) return {};
  return attention;
}

std::optional<loop::Attention> describe(const ir::Graph& graph, const ir::Node& node) {
  loop::Attention attention{.mask = !is_absent(node, kMask)};
  const auto at_end = constant_argument(node, kAtEnd), nan = constant_argument(node, kEmptyIsNan);
  if (!at_end || !nan || !read_number(node, kBefore, attention.before) || !read_number(node, kAfter, attention.after) ||
      !read_number(node, kScale, attention.scale))
    return {};
  attention.empty_is_nan = nan->as_bool();
  if (at_end->as_bool()) attention.position = loop::AttentionPosition::kEnd;
  if (is_absent(node, kPosition)) return attention;
  const ir::TensorType* position = tensor_argument(graph, node, kPosition);
  if (position == nullptr || position->dtype != DType::kI64 || at_end->as_bool()) return {};
  attention.position = loop::AttentionPosition::kGiven;
  return attention;
}

}  // namespace

std::optional<GeneratedNode> choose_attention(const ir::Graph& graph, const ir::Uses& uses, const ir::Node& node) {
  static const ir::Op* kFlash = &ops::require("aten._scaled_dot_product_flash_attention_for_cpu");
  static const ir::Op* kAttention = &ops::require("npugraph.attention");
  const bool flash = node.op == kFlash;
  if ((!flash && node.op != kAttention) || node.results.size() != (flash ? 2 : 1)) return {};
  const ir::TensorType* q = tensor_argument(graph, node, kQuery);
  if (!are_heads(q, tensor_argument(graph, node, kKey), tensor_argument(graph, node, kValue))) return {};
  auto attention = flash ? describe_flash(node) : describe(graph, node);
  const size_t mask = flash ? kFlashMask : kMask;
  if (!attention || (attention->mask && !is_mask(tensor_argument(graph, node, mask), !flash))) return {};
  const ir::ValueId result = node.results[0];
  if (result == ir::kNone || !graph.value(result).tensor().strides.back().is_int(1)) return {};
  attention->logsumexp = flash && is_read(uses, node.results[1]);

  GeneratedNode generated{.kind = program::TaskKind::kAttention, .name = "attention", .text = loop::print(*attention)};
  std::vector<size_t> reads{kQuery, kKey, kValue};
  if (attention->mask) reads.push_back(mask);
  if (attention->position == loop::AttentionPosition::kGiven) reads.push_back(kPosition);
  for (const size_t arg : reads) generated.reads.push_back(std::get<TensorRef>(node.args[arg]).id);
  generated.writes = {result};
  if (attention->logsumexp) generated.writes.push_back(node.results[1]);
  return generated;
}

}  // namespace npugraph::lower
