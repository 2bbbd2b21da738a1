// SPDX-License-Identifier: Apache-2.0
// A library for LD_PRELOAD: no library that is loaded later sees that the processor has more than AVX2. Instructions
// that ask the processor (CPUID) fault, and are then answered without AVX-512, AMX and what comes with them. Needs a
// processor and a kernel with faults of CPUID (`cpuid_fault` in /proc/cpuinfo); ends the process where they are
// missing. The C library was loaded before and keeps its choice of string functions.
#include <cstdint>
#include <cstdlib>

#include <cpuid.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

namespace {

using SigactionFunction = int(int, const struct sigaction*, struct sigaction*);

constexpr int kArchCpuid = 0x1012;

// What the program wants to happen at other faults.
struct sigaction wanted{};

int real_sigaction(int number, const struct sigaction* action, struct sigaction* before) {
  static auto* const next = reinterpret_cast<SigactionFunction*>(dlsym(RTLD_NEXT, "sigaction"));
  return next(number, action, before);
}

bool allow_cpuid(bool allowed) { return syscall(SYS_arch_prctl, kArchCpuid, allowed ? 1UL : 0UL) == 0; }

struct Answer {
  uint32_t a, b, c, d;
};

// Bits of leaf 7, in the order of the manual.
void hide_features(uint32_t subleaf, Answer& answer) {
  if (subleaf == 0) {
    answer.b &= ~(1U << 16 | 1U << 17 | 1U << 21 | 1U << 26 | 1U << 27 | 1U << 28 | 1U << 30 | 1U << 31);  // AVX-512
    answer.c &= ~(1U << 1 | 1U << 6 | 1U << 11 | 1U << 12 | 1U << 14);                       // its VBMI, VNNI
    answer.d &= ~(1U << 2 | 1U << 3 | 1U << 8 | 1U << 22 | 1U << 23 | 1U << 24 | 1U << 25);  // f16, AMX
  } else if (subleaf == 1) {
    answer.a &= ~(1U << 4 | 1U << 5 | 1U << 21 | 1U << 23);            // VNNI and IFMA of AVX, bf16, f16 of AMX
    answer.d &= ~(1U << 4 | 1U << 5 | 1U << 8 | 1U << 10 | 1U << 19);  // more of both, AVX10
  }
}

void answer_cpuid(int signal_number, siginfo_t*, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* code = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
  if (code[0] != 0x0f || code[1] != 0xa2) {  // another fault, which is met again with the program's handler
    real_sigaction(signal_number, &wanted, nullptr);
    return;
  }
  const auto leaf = static_cast<uint32_t>(registers[REG_RAX]), subleaf = static_cast<uint32_t>(registers[REG_RCX]);
  Answer answer{};
  allow_cpuid(true);
  __cpuid_count(leaf, subleaf, answer.a, answer.b, answer.c, answer.d);
  allow_cpuid(false);
  if (leaf == 7) hide_features(subleaf, answer);
  registers[REG_RAX] = answer.a;
  registers[REG_RBX] = answer.b;
  registers[REG_RCX] = answer.c;
  registers[REG_RDX] = answer.d;
  registers[REG_RIP] += 2;
}

__attribute__((constructor)) void start() {
  struct sigaction action{};
  action.sa_sigaction = answer_cpuid;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  real_sigaction(SIGSEGV, &action, &wanted);
  if (allow_cpuid(false)) return;
  constexpr char kMessage[] = "only_avx2: this machine cannot hide instructions\n";
  if (write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1) < 0) abort();
  _exit(1);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int sigaction(int number, const struct sigaction* action,
                                                                struct sigaction* before) {
  if (number != SIGSEGV) return real_sigaction(number, action, before);
  if (before != nullptr) *before = wanted;
  if (action != nullptr) wanted = *action;
  return 0;
}

extern "C" __attribute__((visibility("default"))) sighandler_t signal(int number, sighandler_t handler) {
  struct sigaction action{}, before{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  return sigaction(number, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}
