// SPDX-License-Identifier: Apache-2.0
#include "loop/gguf.h"

#include <array>

namespace npugraph::loop {
namespace {

constexpr std::array<BlockFormat, 5> kFormats = {{
    // f16 scale, 16 bytes of codes
    {"q4_0", 32, 18, 8, 32, 0, false, false},
    // f16 scale, f16 offset, codes
    {"q4_1", 32, 20, 0, 32, 0, true, false},
    // f16 scale, 32 signed codes
    {"q8_0", 32, 34, 128, 32, 0, false, true},
    // f16 scale, f16 scale of offsets, 12 bytes with 8 scales and 8 offsets of 6 bits, codes
    {"q4_k", 256, 144, 0, 32, 0, true, false},
    // 128 bytes with 4 bits of the codes, 64 with 2 bits, 16 signed scales, f16 scale
    {"q6_k", 256, 210, 32, 16, 208, false, false},
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
    case BlockType::kQ4K: return {16 + first / 64 * 32 + first % 32, first / 32 % 2 * 4};
    case BlockType::kQ6K: return {first / 128 * 64 + first % 64, first / 64 % 2 * 4};
    case BlockType::kQ8_0: return {2 + first, 0};
  }
  return {};
}

CodeBits upper_bits(int first) { return {128 + first / 128 * 32 + first % 32, first / 32 % 4 * 2}; }

}  // namespace npugraph::loop
