// SPDX-License-Identifier: Apache-2.0
// Tiles of matrix products (tile_shape.h) on AMX, whose registers hold 16 rows of 64 bytes each. A step of 4 bytes of 16 rows
// and of 16 columns is one instruction.
//
// How the registers are divided is a state of the thread: it is set by an AmxScope around the calls of tile functions, and
// given up with it, so that nothing else sees it and the kernel need not save the registers.
#pragma once

#include "codegen/matmul/tile_shape.h"
#include "target/target.h"

namespace npugraph::codegen {

// Null where the processor has none, or the kind of tile needs none.
struct AmxCode {
  void (*configure)() = nullptr;
  void (*release)() = nullptr;
};

AmxCode amx_code(const target::Target& target, TileKind kind);

class AmxScope {
 public:
  explicit AmxScope(const AmxCode& code) : release_(code.release) {
    if (code.configure != nullptr) code.configure();
  }
  ~AmxScope() {
    if (release_ != nullptr) release_();
  }
  AmxScope(const AmxScope&) = delete;
  AmxScope& operator=(const AmxScope&) = delete;

 private:
  void (*release_)();
};

// Steps of a tile's rows that stay in the first cache while many panels pass it.
inline constexpr int64_t kAmxSteps = 192;
// Rows that come next are fetched once, by the tiles of the panels together: so many of them by each.
int rows_for_each(int64_t rows, int64_t panels);

// Fills in the body of a TileFunction. Sums of i8 are those of numbers with sign: nothing is to be taken off.
void emit_amx_tile(llvm::Function* function, TileKind kind, const TileShape& shape);

}  // namespace npugraph::codegen
