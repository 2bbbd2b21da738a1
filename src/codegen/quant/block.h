// SPDX-License-Identifier: Apache-2.0
// Reads of weights in the blocks of GGUF files.
#pragma once

#include <array>
#include <functional>
#include <map>

#include "codegen/emit/vectors.h"
#include "loop/gguf.h"

namespace npugraph::codegen {

// Emits reads of one block. What several reads share (scales, codes that lie in one byte) is emitted by the first of them, so
// all must stand in one basic block.
class BlockReader {
 public:
  // `block`: a pointer to it.
  BlockReader(Ir& b, const target::Target& target, loop::BlockType type, llvm::Value* block)
      : b_(b), target_(target), type_(type), format_(loop::format_of(type)), block_(block) {}

  // Elements [first, first + lanes) as f32, rounded once; lanes divides 16 and `first`.
  llvm::Value* elements(int first, int lanes);

  // Codes [first, first + 32) as bytes without sign; `first` is a multiple of 32.
  llvm::Value* codes(int first);
  // What 4 codes each, of the 32 from `first` on, are multiplied with: <8 x float>; and what is added to each, where there are
  // offsets.
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
  bool looks_up(int lanes) const;
  llvm::Value* nibbles(int first, int lanes);
  llvm::Value* high_bits(int first, int lanes);

  Ir& b_;
  const target::Target& target_;
  loop::BlockType type_;
  const loop::BlockFormat& format_;
  llvm::Value* block_;
  std::map<Key, llvm::Value*> emitted_;
};

}  // namespace npugraph::codegen
