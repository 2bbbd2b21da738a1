// SPDX-License-Identifier: Apache-2.0
// The instructions that products are made of, on each level of the processor.
#include "codegen/assembly_testing.h"
#include "codegen/matmul/matvec.h"
#include "codegen/matmul/tile.h"

namespace npugraph::codegen {
namespace {

using target::Arch;
using target::Target;

// What multiplies and adds vectors of f32.
std::string multiply_add_of(const Target& target) {
  if (target.scalable) return "fml[as]|fmad";
  if (target.arch == Arch::kAArch64) return "fmla";
  return target.fma ? "vfmadd(132|213|231)ps" : "mulps";
}

// What multiplies and adds quads of i8.
std::string dot_of_quads(const Target& target) {
  if (target.arch == Arch::kX86_64) return target.int8_dot ? "vpdpbusd" : "v?pmaddwd";
  return target.int8_mixed ? "usdot" : target.int8_dot ? "sdot" : "mla|smlal|mul";
}

std::string tile(const Target& target, TileKind kind) {
  const TileShape shape = tile_shape(target, kind);
  return assembly_of(target, tile_type, [&](llvm::Function* f) { emit_tile(f, target, kind, shape); });
}

std::string matvec(const Target& target, MatvecKind kind) {
  return assembly_of(target, matvec_type, [&](llvm::Function* f) { emit_rows_matvec(f, kind, 2, target); });
}

TEST(Instructions, TilesOfFloats) {
  for (const Target& target : target::host_targets())
    expect_instruction(tile(target, TileKind::kF32), multiply_add_of(target), vectors_of(target), target);
}

TEST(Instructions, TilesOfPairs) {
  for (const Target& target : target::host_targets()) {
    if (target.amx)
      expect_instruction(tile(target, TileKind::kBf16Pairs), "tdpbf16ps", "%tmm", target);
    else if (target.bf16_dot)
      expect_instruction(tile(target, TileKind::kBf16Pairs), "vdpbf16ps", vectors_of(target), target);
  }
}

TEST(Instructions, TilesOfIntegers) {
  for (const Target& target : target::host_targets()) {
    if (!target.int8_dot) {
      const std::string text = tile(target, TileKind::kI16Pairs);
      expect_instruction(text, dot_of_quads(target), vectors_of(target), target);
      EXPECT_FALSE(std::regex_search(text, std::regex("vpaddd[^\n]*rsp"))) << "sums in memory:\n" << text;
      continue;
    }
    for (const TileKind kind : {TileKind::kI8Quads, TileKind::kU8Quads}) {
      const std::string text = tile(target, kind);
      if (target.amx)
        expect_instruction(text, kind == TileKind::kI8Quads ? "tdpbssd" : "tdpbsud", "%tmm", target);
      else
        expect_instruction(text, dot_of_quads(target), vectors_of(target), target);
    }
  }
}

TEST(Instructions, MatrixTimesVectors) {
  for (const Target& target : target::host_targets()) {
    expect_instruction(matvec(target, MatvecKind::kF32), multiply_add_of(target), vectors_of(target), target);
    for (const MatvecKind kind : {MatvecKind::kI8Dot, MatvecKind::kU8Dot})
      expect_instruction(matvec(target, kind), dot_of_quads(target), vectors_of(target), target);
    if (target.bf16_dot)
      expect_instruction(matvec(target, MatvecKind::kBf16Dot), "vdpbf16ps", vectors_of(target), target);
  }
}

TEST(Instructions, ElementsOf16BitsAreWidenedInVectors) {
  for (const Target& target : target::host_targets()) {
    const bool arm = target.arch == Arch::kAArch64;
    expect_instruction(matvec(target, MatvecKind::kBf16), arm ? "u?shll|uunpklo|ld1h|lsl" : "v?pmovzxwd|v?punpcklwd",
                       arm ? "[vz][0-9]" : vectors_of(target), target);
    if (target.f16c)
      expect_instruction(matvec(target, MatvecKind::kF16), arm ? "fcvtl|fcvt" : "vcvtph2ps", vectors_of(target),
                         target);
  }
}

}  // namespace
}  // namespace npugraph::codegen
