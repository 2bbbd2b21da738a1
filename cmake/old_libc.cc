// SPDX-License-Identifier: Apache-2.0
// Symbols of newer glibc that archives of the system refer to (LLVM, libstdc++), in terms of glibc 2.31.
#include <cstdint>
#include <cstdlib>

#include <malloc.h>
#include <sys/random.h>

extern "C" {

// glibc 2.32. False is always right: reference counts are atomic even while there is one thread.
char __libc_single_threaded = 0;

// glibc 2.33. The older function counts in int.
struct mallinfo2 mallinfo2() noexcept {
  const struct mallinfo counts = mallinfo();
  const auto wide = [](int count) { return static_cast<std::size_t>(static_cast<unsigned>(count)); };
  return {wide(counts.arena),    wide(counts.ordblks), wide(counts.smblks),  wide(counts.hblks),
          wide(counts.hblkhd),   wide(counts.usmblks), wide(counts.fsmblks), wide(counts.uordblks),
          wide(counts.fordblks), wide(counts.keepcost)};
}

// glibc 2.36.
std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value) std::abort();  // of so few bytes it gives all
  return value;
}
}
