// SPDX-License-Identifier: Apache-2.0
// The instructions that loops are made of, on each level of the processor.
#include "codegen/assembly_testing.h"
#include "codegen/kernel/kernel.h"
#include "loop/builder.h"

namespace npugraph::codegen {
namespace {

using target::Arch;
using target::Target;

// y = x * x + x for vectors of a type, computed in f32.
loop::Kernel square_and_add(DType type) {
  loop::Builder b("square_and_add");
  const Expr n = b.scalar("n");
  const loop::BufferId x = b.in("x", type), y = b.out("y", type);
  b.vector_for(n, [&](const Expr& i) {
    const loop::Value value = cast(b.load(x, i), DType::kF32);
    b.store(y, i, cast(value * value + value, type));
  });
  return b.finish();
}

TEST(Instructions, LoopsOfF32) {
  for (const Target& target : target::host_targets()) {
    const std::string text = kernel_assembly(square_and_add(DType::kF32), target);
    expect_instruction(text, "v?mulps|fmul", vectors_of(target), target);
    expect_instruction(text, "v?addps|fadd", vectors_of(target), target);
  }
}

TEST(Instructions, LoopsOfF16) {
  for (const Target& target : target::host_targets()) {
    if (!target.f16c) continue;
    const std::string text = kernel_assembly(square_and_add(DType::kF16), target);
    const bool arm = target.arch == Arch::kAArch64;
    expect_instruction(text, arm ? "fcvtl2?|fcvt" : "vcvtph2ps", vectors_of(target), target);
    expect_instruction(text, arm ? "fcvtn2?|fcvt" : "vcvtps2ph", arm ? "[vz][0-9]" : vectors_of(target), target);
  }
}

}  // namespace
}  // namespace npugraph::codegen
