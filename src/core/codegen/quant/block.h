// SPDX-License-Identifier: Apache-2.0
// Reads of weights in the blocks of GGUF files.
#pragma once

#include <array>
#include <functional>
#include <map>

#include "codegen/emit/vectors.h"
#include "loop/gguf.h"

namespace npugraph::codegen {

// Emits reads of one block. Values that several reads share (scales, codes in one byte) are emitted by the first of
// these reads, so all of them must be in one basic block.
class BlockReader {
 public:
  // `block` points to the block.
  BlockReader(Ir& b, const target::Target& target, loop::BlockType type, llvm::Value* block)
      : b_(b), target_(target), type_(type), format_(loop::format_of(type)), block_(block) {}

  // Elements [first, first + lanes) as f32, rounded once; lanes divides 16 and `first`.
  llvm::Value* elements(int first, int lanes);

  // Codes [first, first + 32) as unsigned bytes; `first` is a multiple of 32.
  llvm::Value* codes(int first);
  // <8 x float>: for each 4 of the 32 codes from `first` on, the scale and, in formats with offsets, the offset of each
  // code.
  llvm::Value* scales_of_quads(int first);
  llvm::Value* offsets_of_quads(int first);

 private:
  using Key = std::array<int, 3>;
  // The result of `emit`, which is called once for each key.
  llvm::Value* once(const Key& key, const std::function<llvm::Value*()>& emit);
  llvm::Value* bytes(int at, int count);
  llvm::Value* word(int at);
  llvm::Value* half(int at, int lanes);
  llvm::Value* shared_scales(bool offsets);
  llvm::Value* scales_of_6_bits(bool offsets);
  llvm::Value* scale(int group, int lanes);
  llvm::Value* offset(int group, int lanes);
  bool looks_up(int lanes) const;
  llvm::Value* nibbles(int first, int lanes);
  llvm::Value* upper_bits(int first, int lanes);
  llvm::Value* upper_bits_of_bytes(int first);
  uint32_t upper_mask() const { return (1U << (format_.bits - 4)) - 1; }

  Ir& b_;
  const target::Target& target_;
  loop::BlockType type_;
  const loop::BlockFormat& format_;
  llvm::Value* block_;
  std::map<Key, llvm::Value*> emitted_;
};

}  // namespace npugraph::codegen
