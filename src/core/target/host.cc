// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <fstream>
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

constexpr std::array kLevelNames = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-amx", "neon", "sve"};

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

bool has_amx() {
  static const bool has = __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
                          __builtin_cpu_supports("amx-int8") && __builtin_cpu_supports("avx512bf16") &&
                          __builtin_cpu_supports("avx512vnni") && allows_amx();
  return has;
}

bool has_level(Level level) {
  __builtin_cpu_init();
  switch (level) {
    case Level::kX86V2: return __builtin_cpu_supports("x86-64-v2");
    case Level::kX86V3: return __builtin_cpu_supports("x86-64-v3");
    case Level::kX86V4: return __builtin_cpu_supports("x86-64-v4");
    case Level::kX86V4Amx: return has_level(Level::kX86V4) && has_amx();
    default: return false;
  }
}

// Adds the features beyond the v4 baseline that generated code uses.
void add_v4_features(Target& out) {
  // LLVM uses only 256-bit vectors on this baseline unless told otherwise.
  out.features = "-prefer-256-bit";
  out.bf16_dot = __builtin_cpu_supports("avx512bf16");
  if (out.bf16_dot) out.features += ",+avx512bf16";
  out.int8_dot = out.int8_mixed = __builtin_cpu_supports("avx512vnni");
  if (out.int8_dot) out.features += ",+avx512vnni";
  if (out.amx) out.features += ",+amx-tile,+amx-bf16,+amx-int8";
}

void describe(Level level, Target& out) {
  out.arch = Arch::kX86_64;
  // On a Xeon that reads 33 GB/s, rows of bf16 arrive at 29 GB/s with it and at 23 GB/s without. On an EPYC it costs
  // more than it gains.
  out.fetch_streams = __builtin_cpu_is("intel");
  out.fma = out.f16c = level >= Level::kX86V3;
  out.masks = level >= Level::kX86V4;
  out.vector_bits = level >= Level::kX86V4 ? 512 : level >= Level::kX86V3 ? 256 : 128;
  out.vector_registers = level >= Level::kX86V4 ? 32 : 16;
  out.amx = level == Level::kX86V4Amx;
  if (level >= Level::kX86V4) add_v4_features(out);
}

constexpr std::array kLevels = {Level::kX86V2, Level::kX86V3, Level::kX86V4, Level::kX86V4Amx};

#elif defined(__aarch64__)

// Bits of the vectors of SVE that a process gets; 0 without SVE. Wider ones than of 512 bits are used in part.
int sve_bits() {
  if ((getauxval(AT_HWCAP) & HWCAP_SVE) == 0) return 0;
  const int length = prctl(PR_SVE_GET_VL);
  return length < 0 ? 0 : std::min(512, (length & PR_SVE_VL_LEN_MASK) * 8);
}

bool has_level(Level level) { return level == Level::kNeon || (level == Level::kSve && sve_bits() > 128); }

void describe(Level level, Target& out) {
  out.arch = Arch::kAArch64;
  out.fma = out.f16c = true;
  out.vector_bits = level == Level::kSve ? sve_bits() : 128;
  out.vector_registers = 32;
  out.int8_dot = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  if (out.int8_dot) out.features = "+dotprod";
  out.int8_mixed = out.int8_dot && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
  if (out.int8_mixed) out.features += ",+i8mm";
  if (level == Level::kSve) out.features += out.features.empty() ? "+sve" : ",+sve";
}

constexpr std::array kLevels = {Level::kNeon, Level::kSve};

#else
#error "host.cc: tell what this processor can do"
#endif

Target find_host() {
  const std::vector<Target> all = host_targets();
  const std::string& wanted = environment().target;
  if (wanted.empty() || wanted == "native") return all.back();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Target& t) { return name_of(t.level) == wanted; });
  if (found != all.end()) return *found;
  log_warning(cat("NPUGRAPH_TARGET=", wanted, " is ignored: this processor is ", name_of(all.back().level)));
  return all.back();
}

}  // namespace

std::string_view name_of(Level level) { return kLevelNames[static_cast<size_t>(level)]; }

std::optional<Target> host_at(Level level) {
  if (!has_level(level)) return std::nullopt;
  Target out;
  out.level = level;
  out.cpu = level >= Level::kNeon ? "generic" : name_of(std::min(level, Level::kX86V4));
  describe(level, out);
  read_caches(out);
  return out;
}

std::vector<Target> host_targets() {
  std::vector<Target> out;
  for (Level level : kLevels)
    if (std::optional<Target> target = host_at(level)) out.push_back(*std::move(target));
  if (out.empty()) throw UserError("generated code needs a processor of level x86-64-v2 or later");
  return out;
}

const Target& host_target() {
  static const Target host = find_host();
  return host;
}

}  // namespace npugraph::target
