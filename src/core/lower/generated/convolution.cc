// SPDX-License-Identifier: Apache-2.0
#include "loop/convolution.h"

#include "lower/arguments.h"
#include "lower/generated/generated_node.h"
#include "tensor/shape.h"

namespace npugraph::lower {
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
