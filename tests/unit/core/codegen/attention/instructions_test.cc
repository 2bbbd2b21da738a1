// SPDX-License-Identifier: Apache-2.0
// The instructions that attention is made of, on each level of the processor.
#include "codegen/assembly_testing.h"
#include "codegen/attention/piece.h"

namespace npugraph::codegen {
namespace {

using target::Target;

TEST(Instructions, SoftmaxOfARow) {
  for (const Target& target : target::host_targets()) {
    const std::string text =
        assembly_of(target, softmax_row_type, [&](llvm::Function* f) { emit_softmax_row(f, true, target); });
    expect_instruction(text, "v?maxps|fmaxn?m|fcmg[et]", vectors_of(target), target);
    expect_instruction(text, "v?mulps|vfm.*ps|fmul|fm[al].*", vectors_of(target), target);
  }
}

TEST(Instructions, ProbabilitiesTimesValues) {
  for (const Target& target : target::host_targets()) {
    const std::string text =
        assembly_of(target, value_tile_type, [&](llvm::Function* f) { emit_value_tile(f, 4, 2, false, target); });
    expect_instruction(text, "mulps|vfm.*ps|fm[al].*", vectors_of(target), target);
  }
}

}  // namespace
}  // namespace npugraph::codegen
