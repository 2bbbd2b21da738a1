// SPDX-License-Identifier: Apache-2.0
// Reads of one block of each of 16 rows: scales in a lane for each row, codes of two rows in a register of 512 bits.
#pragma once

#include <array>
#include <functional>
#include <map>

#include "codegen/emit/row_pointers.h"
#include "codegen/emit/vectors.h"
#include "loop/gguf.h"

namespace npugraph::codegen {

inline constexpr int kRowsAtOnce = 16;

// Emits such reads. Values that several reads share are emitted by the first of these reads, so all of them must be in
// one basic block.
class Blocks16 {
 public:
  // `rows` point to the blocks; `apart` has their distances from the first one in bytes, as i32.
  Blocks16(Ir& b, const target::Target& target, loop::BlockType type, const RowPointers& rows, llvm::Value* apart)
      : b_(b), target_(target), type_(type), format_(loop::format_of(type)), rows_(rows), apart_(apart) {}

  // <16 x float>: for each row, the scale and the offset of codes [first, first + loop::BlockFormat::group).
  llvm::Value* scales(int first);
  llvm::Value* offsets(int first);
  // <16 x i32>: codes [first, first + 32) of rows 2 * pair and 2 * pair + 1, as unsigned bytes.
  llvm::Value* codes(int pair, int first);

 private:
  using Key = std::array<int, 2>;
  llvm::Value* once(const Key& key, const std::function<llvm::Value*()>& emit);
  llvm::Value* words(int byte);
  llvm::Value* halves(int byte);
  llvm::Value* bits(llvm::Value* from, int first, int count);
  llvm::Value* number_of_6_bits(int group, bool offset);
  llvm::Value* both_rows(int pair, int byte, int count);
  llvm::Value* bits_of_bytes(int pair, const loop::CodeBits& place, int count);
  llvm::Value* nibbles(int pair, int byte);
  llvm::Value* upper_bits_of_word(int pair, int byte);

  Ir& b_;
  const target::Target& target_;
  loop::BlockType type_;
  const loop::BlockFormat& format_;
  const RowPointers& rows_;
  llvm::Value* apart_;
  std::map<Key, llvm::Value*> emitted_;
};

}  // namespace npugraph::codegen
