// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"

namespace npugraph::ops::shapes {
namespace {

// Blocks of GGUF files.
struct BlockSize {
  std::string_view name;
  int64_t elements;
  int64_t bytes;
};
constexpr std::array<BlockSize, 5> kBlocks = {
    {{"q4_0", 32, 18}, {"q4_1", 32, 20}, {"q8_0", 32, 34}, {"q4_k", 256, 144}, {"q6_k", 256, 210}}};

Types in_type(const Call& call, std::string_view name, DType otherwise) {
  const auto* input = call.tensor(0);
  auto strides = input == nullptr ? std::nullopt : preserved_strides(call.graph, *input);
  if (!strides) return std::nullopt;
  const auto* dtype = std::get_if<DType>(&call.args[*call.find(name)]);
  return std::vector<ir::Type>{
      ir::TensorType{dtype == nullptr ? otherwise : *dtype, input->sizes, std::move(*strides), input->device}};
}

// Whether no element stands for several. Where one does, eager and FakeTensor disagree on the layout of what is
// quantised by channels.
bool has_own_places(const ir::TensorType* type) {
  if (type == nullptr) return false;
  for (size_t i = 0; i < type->sizes.size(); ++i) {
    if (type->strides[i].is_int(0) && !type->sizes[i].is_int(1)) return false;
  }
  return true;
}

}  // namespace

Types quantize(const Call& call) { return in_type(call, "dtype", DType::kI8); }

Types dequantize(const Call& call) { return in_type(call, "out_dtype", DType::kF32); }

Types quantize_channels(const Call& call) { return has_own_places(call.tensor(0)) ? quantize(call) : std::nullopt; }

Types dequantize_channels(const Call& call) { return has_own_places(call.tensor(0)) ? dequantize(call) : std::nullopt; }

Types gguf_embedding(const Call& call) {
  const auto* blocks = call.tensor(0);
  const auto* indices = call.tensor(1);
  const auto* name = std::get_if<std::string>(&call.args[2]);
  const auto* dtype = std::get_if<DType>(&call.args[3]);
  if (blocks == nullptr || indices == nullptr || name == nullptr || dtype == nullptr) return std::nullopt;
  const auto is_named = [&](const BlockSize& block) { return block.name == *name; };
  const auto block = std::find_if(kBlocks.begin(), kBlocks.end(), is_named);
  if (block == kBlocks.end() || blocks->sizes.size() != 2) return std::nullopt;
  auto sizes = indices->sizes;
  sizes.push_back(Expr::make(ExprOp::kFloorDiv, {blocks->sizes[1], block->bytes}) * block->elements);
  return contiguous(*dtype, std::move(sizes), blocks->device);
}

}  // namespace npugraph::ops::shapes
