// SPDX-License-Identifier: Apache-2.0
#include "lower/generated/generated_node.h"

#include "loop/task_parameters.h"
#include "lower/arguments.h"
#include "target/target.h"
#include "tensor/shape.h"

namespace npugraph::lower {

bool is_generated_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || (dtype == DType::kF16 && target::host_target().f16c);
}

namespace {

using Flash = aten::_scaled_dot_product_flash_attention_for_cpu;
using Attention = own::attention;

// Whether queries, keys and values are [b, heads, rows, elements] of one type, and the number of query heads is a
// multiple of that of key heads (for symbolic numbers the operator itself demands it).
bool are_heads(const ir::TensorType* q, const ir::TensorType* k, const ir::TensorType* v) {
  for (const ir::TensorType* type : {q, k, v}) {
    if (type == nullptr || type->sizes.size() != 4 || type->dtype != q->dtype) return false;
  }
  const auto heads = q->sizes[1].as_int(), groups = k->sizes[1].as_int();
  const bool whole = !heads || !groups || (*groups > 0 && *heads % *groups == 0);
  return is_generated_float(q->dtype) && whole && v->sizes[1] == k->sizes[1];
}

bool is_read(const ir::Uses& uses, ir::ValueId value) {
  return value != ir::kNone && (!uses.users[value].empty() || uses.output_uses[value] > 0);
}

bool is_absent(const Attr& argument) { return std::holds_alternative<None>(argument); }

// Stores a constant number in `to`; an absent argument leaves it empty. Returns false for other arguments.
template <typename Number>
bool read_number(const Attr& argument, std::optional<Number>& to) {
  if (is_absent(argument)) return true;
  const auto number = ops::as_constant(argument);
  if (!number) return false;
  if constexpr (std::is_same_v<Number, double>)
    to = number->as_float();
  else
    to = number->as_int();
  return true;
}

// Whether generated code takes the mask. `booleans`: also one of booleans, which a flash kernel gets as numbers.
bool is_mask(const ir::TensorType* mask, bool booleans) {
  if (mask == nullptr || (!is_generated_float(mask->dtype) && !(booleans && mask->dtype == DType::kBool))) return false;
  return mask->sizes.size() == 2 || mask->sizes.size() == 4;
}

// Describes the node; nullopt if code cannot be generated for its arguments.
std::optional<loop::Attention> describe_flash(const ir::Node& node) {
  const auto dropout = Flash::dropout_p.as_constant(node), causal = Flash::is_causal.as_constant(node);
  if (!dropout || dropout->as_float() != 0.0 || !causal) return {};
  loop::Attention attention{.mask = !is_absent(Flash::attn_mask.attr(node))};
  if (causal->as_bool()) attention.after = 0;
  if (!read_number(Flash::scale.attr(node), attention.scale)) return {};
  return attention;
}

std::optional<loop::Attention> describe_attention(const ir::Graph& graph, const ir::Node& node) {
  loop::Attention attention{.mask = !is_absent(Attention::mask.attr(node))};
  const auto at_end = Attention::at_end.as_constant(node), nan = Attention::empty_is_nan.as_constant(node);
  if (!at_end || !nan || !read_number(Attention::before.attr(node), attention.before) ||
      !read_number(Attention::after.attr(node), attention.after) ||
      !read_number(Attention::scale.attr(node), attention.scale))
    return {};
  attention.empty_is_nan = nan->as_bool();
  if (at_end->as_bool()) attention.position = loop::AttentionPosition::kEnd;
  if (is_absent(Attention::position.attr(node))) return attention;
  const ir::TensorType* position = tensor_type(graph, Attention::position(node));
  if (position == nullptr || position->dtype != DType::kI64 || at_end->as_bool()) return {};
  attention.position = loop::AttentionPosition::kGiven;
  return attention;
}

}  // namespace

std::optional<GeneratedNode> choose_attention(const ir::Graph& graph, const ir::Uses& uses, const ir::Node& node) {
  const bool flash = Flash::is(node);
  if ((!flash && !Attention::is(node)) || node.results.size() != (flash ? 2 : 1)) return {};
  const ir::TensorType* q = tensor_type(graph, arg::query(node));
  if (!are_heads(q, tensor_type(graph, arg::key(node)), tensor_type(graph, arg::value(node)))) return {};
  auto attention = flash ? describe_flash(node) : describe_attention(graph, node);
  const ir::ValueId mask = flash ? Flash::attn_mask(node) : Attention::mask(node);
  if (!attention || (attention->mask && !is_mask(tensor_type(graph, mask), !flash))) return {};
  const ir::ValueId result = node.results[0];
  if (result == ir::kNone || !graph.value(result).tensor().strides.back().is_int(1)) return {};
  attention->logsumexp = flash && is_read(uses, node.results[1]);

  GeneratedNode generated{.kind = program::TaskKind::kAttention, .name = "attention", .text = loop::print(*attention)};
  generated.reads = {ops::as_value(arg::query(node)), ops::as_value(arg::key(node)), ops::as_value(arg::value(node))};
  if (attention->mask) generated.reads.push_back(mask);
  if (attention->position == loop::AttentionPosition::kGiven) generated.reads.push_back(Attention::position(node));
  generated.writes = {result};
  if (attention->logsumexp) generated.writes.push_back(node.results[1]);
  return generated;
}

namespace {

using Conv = aten::convolution;

// A constant number for each of `rank` dimensions; a single number stands for all of them. Otherwise nullopt.
std::optional<std::vector<int64_t>> as_ints(const std::vector<Expr>* list, size_t rank) {
  if (list == nullptr || (list->size() != rank && list->size() != 1)) return {};
  std::vector<int64_t> numbers;
  for (size_t d = 0; d < rank; ++d) {
    const auto number = (*list)[list->size() == 1 ? 0 : d].as_int();
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

// Returns nullopt for transposed convolutions, for groups that are computed neither as products nor directly, and for
// numbers that are not constant.
std::optional<loop::Convolution> describe_convolution(const ir::Node& node, const ir::TensorType& weight,
                                                      bool channels_last) {
  const size_t rank = weight.sizes.size() - 2;
  const auto stride = as_ints(Conv::stride(node), rank), padding = as_ints(Conv::padding(node), rank),
             dilation = as_ints(Conv::dilation(node), rank);
  const auto transposed = Conv::transposed.as_constant(node), groups = Conv::groups.as_constant(node);
  const auto sizes = as_ints(&weight.sizes, weight.sizes.size());
  if (!stride || !padding || !dilation || !transposed || transposed->as_bool() || !groups || !sizes) return {};
  if (groups->as_int() < 1) return {};
  loop::Convolution found{.channels_last = channels_last,
                          .groups = groups->as_int(),
                          .stride = *stride,
                          .padding = *padding,
                          .dilation = *dilation};
  const bool is_product = !channels_last && sizes->front() / found.groups >= loop::kProductChannels;
  return is_product || loop::is_direct(found, *sizes) ? std::optional(found) : std::nullopt;
}

// Whether these are dense images whose channels are neighbours in memory.
bool has_channels_last(const ir::TensorType& type) {
  if (type.sizes.size() != 4) return false;
  Expr stride = 1;
  for (const size_t d : {1, 3, 2, 0}) {
    if (!type.sizes[d].is_int(1) && !(type.strides[d] == stride)) return false;
    stride = stride * type.sizes[d];
  }
  return true;
}

}  // namespace

std::optional<loop::Convolution> find_convolution(const ir::Graph& graph, const ir::Node& node) {
  if (!Conv::is(node) || node.results.front() == ir::kNone) return {};
  const ir::TensorType* input = tensor_type(graph, Conv::input(node));
  const ir::TensorType* weight = tensor_type(graph, Conv::weight(node));
  const ir::TensorType* bias = tensor_type(graph, Conv::bias(node));
  const ir::TensorType& result = graph.value(node.results.front()).tensor();
  if (input == nullptr || weight == nullptr || !is_generated_float(input->dtype)) return {};
  for (const ir::TensorType* other : {weight, bias == nullptr ? weight : bias}) {
    if (other->dtype != input->dtype || !is_contiguous(other->sizes, other->strides)) return {};
  }
  const size_t rank = weight->sizes.size() - 2;
  if (rank < 1 || rank > 2 || input->sizes.size() != rank + 2) return {};
  const bool channels_last = !is_contiguous(result.sizes, result.strides);
  if (result.dtype != input->dtype) return {};
  if (channels_last && !(has_channels_last(result) && input->strides[1].is_int(1))) return {};
  return describe_convolution(node, *weight, channels_last);
}

std::optional<GeneratedNode> choose_convolution(const ir::Graph& graph, const ir::Node& node) {
  auto convolution = find_convolution(graph, node);
  if (!convolution) return {};
  convolution->bias = tensor_type(graph, Conv::bias(node)) != nullptr;

  GeneratedNode generated{.kind = program::TaskKind::kConvolution,
                          .name = "convolution",
                          .text = loop::print(*convolution),
                          .reads = {Conv::weight(node), Conv::input(node)}};
  if (convolution->bias) generated.reads.push_back(Conv::bias(node));
  generated.writes = {node.results.front()};
  return generated;
}

}  // namespace npugraph::lower
