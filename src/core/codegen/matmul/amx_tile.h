// SPDX-License-Identifier: Apache-2.0
// Tiles of matrix products (tile.h) on AMX, whose registers hold 16 rows of 64 bytes each. One instruction
// multiplies 16 steps of 4 bytes of 16 rows and 16 columns.
//
// The configuration of the registers is state of the thread. An AmxScope around the calls of tile functions sets it and
// releases it at its end, so that no other code sees it and the operating system need not save the registers.
#pragma once

#include "codegen/matmul/tile.h"
#include "target/target.h"

namespace npugraph::codegen {

// Both are null if the processor has no AMX, or the kind of tile does not use it.
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

// Steps of a tile's rows that stay in the L1 cache while many panels pass through it.
inline constexpr int64_t kAmxSteps = 192;
// The tiles of the panels together prefetch the next rows once. Returns how many rows each of them prefetches.
int rows_for_each(int64_t rows, int64_t panels);

// Fills in the body of a TileFunction. Both factors of i8 are signed, so nothing is to be subtracted from the sums.
void emit_amx_tile(llvm::Function* function, TileKind kind, const TileShape& shape);

}  // namespace npugraph::codegen
