// SPDX-License-Identifier: Apache-2.0
// The processor that code is generated for: instruction sets, vector registers, caches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace npugraph::target {

enum class Arch : uint8_t { kX86_64, kAArch64 };

struct Target {
  Arch arch = Arch::kX86_64;
  std::string level;  // the name of the row of host.cc that describes the processor: "x86-64-v3"
  // Width and number of the vector registers.
  int vector_bits = 128;
  int vector_registers = 16;
  bool scalable = false;  // instructions for vectors of any length (SVE)
  bool fma = false;
  bool f16c = false;            // conversions between f16 and f32
  bool masks = false;           // predicated loads, stores and arithmetic (AVX-512)
  bool bf16_dot = false;        // pairs of bf16 products summed in f32 (vdpbf16ps)
  bool int8_dot = false;        // quads of products of i8 summed in i32 (vpdpbusd, sdot)
  bool int8_mixed = false;      // the same of u8 x i8 in one instruction (vpdpbusd, usdot)
  bool amx = false;             // the same, and i8 x i8, of 16 rows and 16 columns at once (AMX)
  bool fetch_streams = false;   // software prefetching reads streams faster than the hardware prefetcher alone
  std::string cpu;              // as LLVM names the baseline
  std::string features;         // features beyond the baseline, as LLVM writes them: "+avx512bf16,+avx512vnni"
  int64_t l1_bytes = 32 << 10;  // sizes of the data caches that one core sees
  int64_t l2_bytes = 512 << 10;
  int64_t l3_bytes = 4 << 20;

  int vector_bytes() const { return vector_bits / 8; }
  int lanes(DType dtype) const { return static_cast<int>(vector_bytes() / size_of(dtype)); }
  bool operator==(const Target&) const = default;
};

// All fields as text; different targets have different texts.
std::string print(const Target& target);

// The processor, restricted to the level that NPUGRAPH_TARGET names, if any. A level that the processor lacks gives a
// warning and the native level. Determined once per process.
const Target& host_target();

// The processor restricted to each level that it has, lowest first. Its own level includes all features that it has.
// UserError if it has none.
std::vector<Target> host_targets();

}  // namespace npugraph::target
