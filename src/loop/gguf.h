// SPDX-License-Identifier: Apache-2.0
// The blocks of GGUF files: a few codes of 4 to 8 bits that share scales. A row of a matrix is a whole number of blocks; element
// e of a block is scale * (code - zero_code) + offset, where groups of 16 or 32 elements share both.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace npugraph::loop {

enum class BlockType : uint8_t { kQ4_0, kQ4_1, kQ8_0, kQ4K, kQ6K };

struct BlockFormat {
  std::string_view name;
  int elements;
  int bytes;
  int zero_code;     // the code without sign that stands for 0, where there are no offsets
  int group;         // elements that share a scale
  int scale_byte;    // where the f16 scale of the block stands
  bool has_offsets;  // an f16 scale of offsets, or the offset, follows that of the block
  bool wide;         // codes of 8 bits
};

const BlockFormat& format_of(BlockType type);
// By the name of its format: "q4_0", "q4_1", "q8_0", "q4_k", "q6_k".
std::optional<BlockType> block_type(std::string_view name);

// Where bits of some codes that are consecutive lie: from this byte on, so far up.
struct CodeBits {
  int byte;
  int shift;
};

// The low 4 bits (q8_0: all 8, with a sign) of the code of element `first`, and of those behind it as far as bytes are in
// order: at least to the next multiple of 16.
CodeBits low_bits(BlockType type, int first);
// Bits 4 and 5 in a block of q6_k.
CodeBits upper_bits(int first);

}  // namespace npugraph::loop
