// SPDX-License-Identifier: Apache-2.0
// The blocks of GGUF files: a few codes of 4 to 8 bits that share scales. A row of a matrix is a whole number of
// blocks; element e of a block is scale * (code - zero_code) + offset, where groups of 16 or 32 elements share both.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace npugraph::loop {

enum class BlockType : uint8_t { kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ4K, kQ5K, kQ6K };

struct BlockFormat {
  std::string_view name;
  int elements;
  int bytes;
  int bits;          // of a code; those of 8 bits have a sign
  int zero_code;     // the unsigned code that stands for 0, in formats without offsets
  int group;         // elements that share a scale
  int scale_byte;    // position of the f16 scale of the block
  bool has_offsets;  // the scale of the block is followed by the f16 offset, or by the f16 scale of offsets
};

const BlockFormat& format_of(BlockType type);
// By the name of its format: "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k".
std::optional<BlockType> block_type(std::string_view name);

// Place of some bits of consecutive codes: the first byte, and their shift within each byte.
struct CodeBits {
  int byte;
  int shift;
};

// The low 4 bits (q8_0: all 8) of the code of element `first`. The following codes are in the following bytes, at least
// up to the next multiple of 16.
CodeBits low_bits(BlockType type, int first);
// The bits above these in formats with codes of 5 or 6 bits. In blocks of 256 elements the following codes are in the
// following bytes, at least up to the next multiple of 32. In blocks of 32 elements they are in the following bits.
CodeBits upper_bits(BlockType type, int first);

}  // namespace npugraph::loop
