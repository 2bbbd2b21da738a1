// SPDX-License-Identifier: Apache-2.0
// Weights in the blocks of GGUF files: a few codes of 4 to 8 bits that share scales. A row of a matrix is a whole number of
// blocks; element e of a block is scale * code + offset, where groups of 16 or 32 elements share both.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

#include "codegen/vectors.h"

namespace npugraph::codegen {

enum class BlockType : uint8_t { kQ4_0, kQ4_1, kQ8_0, kQ4K, kQ6K };

struct BlockFormat {
  std::string_view name;
  int elements;
  int bytes;
};

const BlockFormat& format_of(BlockType type);
// By the name of its format: "q4_0", "q4_1", "q8_0", "q4_k", "q6_k".
std::optional<BlockType> block_type(std::string_view name);

// Emits reads of one block. What several reads share (scales, codes that lie in one byte) is emitted by the first of them, so
// all must stand in one basic block.
class BlockReader {
 public:
  // `block`: a pointer to it.
  BlockReader(Ir& b, const target::Target& target, BlockType type, llvm::Value* block)
      : b_(b), target_(target), type_(type), block_(block) {}

  // Elements [first, first + lanes) as f32, rounded once; lanes divides 16 and `first`.
  llvm::Value* elements(int first, int lanes);

  // Codes [first, first + 32) as bytes without sign; `first` is a multiple of 32. zero_code() is the code that stands for 0,
  // where has_offsets() is false.
  llvm::Value* codes(int first);
  int zero_code() const;
  bool has_offsets() const { return type_ == BlockType::kQ4_1 || type_ == BlockType::kQ4K; }
  // What 4 codes each, of the 32 from `first` on, are multiplied with: <8 x float>; and what is added to each (has_offsets()).
  llvm::Value* scales_of_quads(int first);
  llvm::Value* offsets_of_quads(int first);

 private:
  using Key = std::array<int, 3>;
  // What `emit` gives, emitted once for each key.
  llvm::Value* once(const Key& key, const std::function<llvm::Value*()>& emit);
  llvm::Value* bytes(int at, int count);
  llvm::Value* word(int at);
  llvm::Value* half(int at, int lanes);
  llvm::Value* shared_scales(bool offsets);
  llvm::Value* q4k_scales(bool offsets);
  llvm::Value* scale(int group, int lanes);
  llvm::Value* offset(int group, int lanes);
  int group_of(int first) const;
  bool looks_up(int lanes) const;
  llvm::Value* nibbles(int first, int lanes);
  llvm::Value* high_bits(int first, int lanes);

  Ir& b_;
  const target::Target& target_;
  BlockType type_;
  llvm::Value* block_;
  std::map<Key, llvm::Value*> emitted_;
};

}  // namespace npugraph::codegen
