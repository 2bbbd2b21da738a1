// SPDX-License-Identifier: Apache-2.0
#include "lower/convolution.h"

#include "target/target.h"

namespace npugraph::lower {
namespace {

constexpr int64_t kLeastChannels = 8;  // of a group of the result

// Arguments of the operator.
enum : size_t { kInput, kWeight, kBias, kStride, kPadding, kDilation, kTransposed, kOutputPadding, kGroups };

const ir::TensorType* tensor(const ir::Graph& graph, const Attr& arg) {
  const auto* ref = std::get_if<TensorRef>(&arg);
  if (ref == nullptr || ref->id == TensorRef::kAbsent || !graph.value(ref->id).is_tensor()) return nullptr;
  return &graph.value(ref->id).tensor();
}

// Also of a truth value.
std::optional<int64_t> as_int(const Attr& arg) {
  const auto* number = std::get_if<Expr>(&arg);
  if (number == nullptr || !number->is_constant()) return {};
  return number->value().as_int();
}

// A number for each of `rank` dimensions; one number stands for all.
std::optional<std::vector<int64_t>> as_ints(const Attr& arg, size_t rank) {
  const auto* list = std::get_if<std::vector<Expr>>(&arg);
  if (list == nullptr || (list->size() != rank && list->size() != 1)) return {};
  std::vector<int64_t> numbers;
  for (size_t d = 0; d < rank; ++d) {
    const auto number = (*list)[list->size() == 1 ? 0 : d].as_int();
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

bool is_contiguous(const ir::TensorType& type) {
  Expr stride(1);
  for (size_t d = type.sizes.size(); d-- > 0;) {
    if (!type.sizes[d].is_int(1) && type.strides[d] != stride) return false;
    stride = stride * type.sizes[d];
  }
  return true;
}

bool is_element(DType dtype) {
  return dtype == DType::kF32 || (dtype == DType::kBF16 && target::host_target().bf16_dot);
}

}  // namespace

std::optional<ConvolutionChoice> choose_convolution(const ir::Graph& graph, const ir::Node& node) {
  if (node.op->name != "aten.convolution" || node.results.front() == ir::kNone) return {};
  const ir::TensorType* input = tensor(graph, node.args[kInput]);
  const ir::TensorType* weight = tensor(graph, node.args[kWeight]);
  const ir::TensorType& result = graph.value(node.results.front()).tensor();
  if (input == nullptr || weight == nullptr || !is_element(input->dtype) || weight->dtype != input->dtype) return {};
  const size_t rank = weight->sizes.size() - 2;
  if (rank < 1 || rank > 2 || input->sizes.size() != rank + 2 || result.dtype != input->dtype) return {};
  if (!is_contiguous(*weight) || !is_contiguous(result)) return {};

  const auto stride = as_ints(node.args[kStride], rank), padding = as_ints(node.args[kPadding], rank),
             dilation = as_ints(node.args[kDilation], rank);
  const auto transposed = as_int(node.args[kTransposed]), groups = as_int(node.args[kGroups]);
  const auto channels = weight->sizes[0].as_int();
  if (!stride || !padding || !dilation || transposed != 0 || !groups || !channels) return {};
  if (*groups < 1 || *channels / *groups < kLeastChannels) return {};

  ConvolutionChoice choice{{.groups = *groups, .stride = *stride, .padding = *padding, .dilation = *dilation}, {}};
  choice.reads = {std::get<TensorRef>(node.args[kWeight]).id, std::get<TensorRef>(node.args[kInput]).id};
  if (const ir::TensorType* bias = tensor(graph, node.args[kBias])) {
    if (bias->dtype != input->dtype || !is_contiguous(*bias)) return {};
    choice.convolution.bias = true;
    choice.reads.push_back(std::get<TensorRef>(node.args[kBias]).id);
  }
  return choice;
}

}  // namespace npugraph::lower
