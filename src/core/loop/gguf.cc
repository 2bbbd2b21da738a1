// SPDX-License-Identifier: Apache-2.0
#include "loop/gguf.h"

#include <array>

namespace npugraph::loop {
namespace {

constexpr std::array<BlockFormat, 8> kFormats = {{
    // f16 scale, 16 bytes of codes
    {"q4_0", 32, 18, 4, 8, 32, 0, false},
    // f16 scale, f16 offset, codes
    {"q4_1", 32, 20, 4, 0, 32, 0, true},
    // f16 scale, a word with the upper bits, 16 bytes with 4 bits of the codes
    {"q5_0", 32, 22, 5, 16, 32, 0, false},
    // f16 scale, f16 offset, the same
    {"q5_1", 32, 24, 5, 0, 32, 0, true},
    // f16 scale, 32 signed codes
    {"q8_0", 32, 34, 8, 128, 32, 0, false},
    // f16 scale, f16 scale of offsets, 12 bytes with 8 scales and 8 offsets of 6 bits, codes
    {"q4_k", 256, 144, 4, 0, 32, 0, true},
    // the same up to the codes, 32 bytes with their upper bits, 128 with 4 bits
    {"q5_k", 256, 176, 5, 0, 32, 0, true},
    // 128 bytes with 4 bits of the codes, 64 with 2 bits, 16 signed scales, f16 scale
    {"q6_k", 256, 210, 6, 32, 16, 208, false},
}};

}  // namespace

const BlockFormat& format_of(BlockType type) { return kFormats[static_cast<size_t>(type)]; }

std::optional<BlockType> block_type(std::string_view name) {
  for (size_t i = 0; i < kFormats.size(); ++i) {
    if (kFormats[i].name == name) return static_cast<BlockType>(i);
  }
  return std::nullopt;
}

CodeBits low_bits(BlockType type, int first) {
  switch (type) {
    case BlockType::kQ4_0: return {2 + first % 16, first / 16 * 4};
    case BlockType::kQ4_1: return {4 + first % 16, first / 16 * 4};
    case BlockType::kQ5_0: return {6 + first % 16, first / 16 * 4};
    case BlockType::kQ5_1: return {8 + first % 16, first / 16 * 4};
    case BlockType::kQ4K: return {16 + first / 64 * 32 + first % 32, first / 32 % 2 * 4};
    case BlockType::kQ5K: return {48 + first / 64 * 32 + first % 32, first / 32 % 2 * 4};
    case BlockType::kQ6K: return {first / 128 * 64 + first % 64, first / 64 % 2 * 4};
    case BlockType::kQ8_0: return {2 + first, 0};
  }
  return {};
}

CodeBits upper_bits(BlockType type, int first) {
  switch (type) {
    case BlockType::kQ5_0: return {2, first};
    case BlockType::kQ5_1: return {4, first};
    case BlockType::kQ5K: return {16 + first % 32, first / 32};
    case BlockType::kQ6K: return {128 + first / 128 * 32 + first % 32, first / 32 % 4 * 2};
    default: return {};
  }
}

}  // namespace npugraph::loop
