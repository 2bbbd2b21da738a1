// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <thread>

#include "base/env.h"
#include "base/error.h"
#include "target/target.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif

namespace npugraph::target {
namespace {

// What code can be generated for. A processor is described by the last row that it has.
struct Level {
  std::string_view name;  // of NPUGRAPH_TARGET
  const char* cpu;        // the baseline, as LLVM names it
  bool (*is_present)();
  void (*describe)(Target& out);  // the fields of the instruction set
};

// Reads a cache size such as "48K" or "32M" from a file in sysfs; 0 if there is none.
int64_t read_size(const std::string& path) {
  std::ifstream file(path);
  int64_t size = 0;
  char unit = 0;
  if (!(file >> size)) return 0;
  file >> unit;
  return unit == 'M' ? size << 20 : unit == 'K' ? size << 10 : size;
}

// Virtual machines report the whole cache of a processor even if they have only a few of its cores.
constexpr int64_t kMostL3PerCore = 16 << 20;

void read_caches(Target& out) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = cat("/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    const int64_t size = read_size(folder + "size");
    std::string type;
    int level = 0;
    if (size <= 0 || !(std::ifstream(folder + "type") >> type) || !(std::ifstream(folder + "level") >> level)) continue;
    if (type == "Instruction") continue;
    if (level == 1) out.l1_bytes = size;
    if (level == 2) out.l2_bytes = size;
    if (level == 3) out.l3_bytes = std::min(size, kMostL3PerCore * std::max(1U, std::thread::hardware_concurrency()));
  }
}

#if defined(__x86_64__)

// Linux saves the tile registers of a process that asks for them once. It refuses if a thread's signal stack is too
// small for them.
bool allows_amx() {
  constexpr int kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

bool has_v4() { return __builtin_cpu_supports("x86-64-v4"); }

bool has_amx() {
  static const bool has = has_v4() && __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
                          __builtin_cpu_supports("amx-int8") && __builtin_cpu_supports("avx512bf16") &&
                          __builtin_cpu_supports("avx512vnni") && allows_amx();
  return has;
}

// On a Xeon that reads 33 GB/s, rows of bf16 arrive at 29 GB/s with software prefetching and at 23 GB/s without. On an
// EPYC it costs more than it gains.
void describe_v2(Target& out) { out.fetch_streams = __builtin_cpu_is("intel"); }

void describe_v3(Target& out) {
  describe_v2(out);
  out.fma = out.f16c = true;
  out.vector_bits = 256;
}

// With the features beyond the baseline that generated code uses.
void describe_v4(Target& out) {
  describe_v3(out);
  out.masks = true;
  out.vector_bits = 512;
  out.vector_registers = 32;
  // LLVM uses only 256-bit vectors on this baseline unless told otherwise.
  out.features = "-prefer-256-bit";
  out.bf16_dot = __builtin_cpu_supports("avx512bf16");
  if (out.bf16_dot) out.features += ",+avx512bf16";
  out.int8_dot = out.int8_mixed = __builtin_cpu_supports("avx512vnni");
  if (out.int8_dot) out.features += ",+avx512vnni";
}

void describe_amx(Target& out) {
  describe_v4(out);
  out.amx = true;
  out.features += ",+amx-tile,+amx-bf16,+amx-int8";
}

constexpr Arch kArch = Arch::kX86_64;
// The levels of its psABI: v2 has SSE4.2, v3 AVX2, FMA and F16C, v4 AVX-512 (F, BW, CD, DQ, VL). The level after v4 is
// v4 with AMX tiles of bf16 and of i8.
constexpr std::array kLevels = {
    Level{"x86-64-v2", "x86-64-v2", [] { return __builtin_cpu_supports("x86-64-v2") != 0; }, describe_v2},
    Level{"x86-64-v3", "x86-64-v3", [] { return __builtin_cpu_supports("x86-64-v3") != 0; }, describe_v3},
    Level{"x86-64-v4", "x86-64-v4", has_v4, describe_v4},
    Level{"x86-64-v4-amx", "x86-64-v4", has_amx, describe_amx},
};

#elif defined(__aarch64__)

// Bits of the vectors of SVE that a process gets; 0 without SVE. Wider ones than of 512 bits are used in part.
int sve_bits() {
  if ((getauxval(AT_HWCAP) & HWCAP_SVE) == 0) return 0;
  const int length = prctl(PR_SVE_GET_VL);
  return length < 0 ? 0 : std::min(512, (length & PR_SVE_VL_LEN_MASK) * 8);
}

void describe_neon(Target& out) {
  out.fma = out.f16c = true;
  out.vector_registers = 32;
  out.int8_dot = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  if (out.int8_dot) out.features = "+dotprod";
  out.int8_mixed = out.int8_dot && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
  if (out.int8_mixed) out.features += ",+i8mm";
}

void describe_sve(Target& out) {
  describe_neon(out);
  out.scalable = true;
  out.vector_bits = sve_bits();
  out.features += out.features.empty() ? "+sve" : ",+sve";
}

constexpr Arch kArch = Arch::kAArch64;
// NEON, and SVE with vectors wider than those of NEON.
constexpr std::array kLevels = {
    Level{"neon", "generic", [] { return true; }, describe_neon},
    Level{"sve", "generic", [] { return sve_bits() > 128; }, describe_sve},
};

#else
#error "host.cc: tell what this processor can do"
#endif

Target find_host() {
  std::vector<Target> all = host_targets();
  const std::string& wanted = environment().target;
  if (wanted.empty() || wanted == "native") return all.back();
  std::string names;
  for (const Target& target : all) {
    if (target.level == wanted) return target;
    names += (names.empty() ? "" : ", ") + target.level;
  }
  log_warning("NPUGRAPH_TARGET=", wanted, " is ignored; the levels of this processor are ", names);
  return all.back();
}

}  // namespace

// Lists all members: a new member of Target does not compile until it is added here.
std::string print(const Target& target) {
  const auto& [arch, level, vector_bits, vector_registers, scalable, fma, f16c, masks, bf16_dot, int8_dot, int8_mixed,
               amx, fetch_streams, cpu, features, l1_bytes, l2_bytes, l3_bytes] = target;
  return cat(static_cast<int>(arch), " ", level, " ", vector_bits, " ", vector_registers, " ", scalable, fma, f16c,
             masks, bf16_dot, int8_dot, int8_mixed, amx, fetch_streams, " ", cpu, " ", features, " ", l1_bytes, " ",
             l2_bytes, " ", l3_bytes);
}

std::vector<Target> host_targets() {
#if defined(__x86_64__)
  __builtin_cpu_init();
#endif
  std::vector<Target> out;
  for (const Level& level : kLevels) {
    if (!level.is_present()) continue;
    Target& target = out.emplace_back(Target{.arch = kArch, .level = std::string(level.name), .cpu = level.cpu});
    level.describe(target);
    read_caches(target);
  }
  if (out.empty()) throw UserError("generated code needs a processor of level x86-64-v2 or later");
  return out;
}

const Target& host_target() {
  static const Target host = find_host();
  return host;
}

}  // namespace npugraph::target
