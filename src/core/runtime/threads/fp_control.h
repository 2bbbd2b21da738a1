// SPDX-License-Identifier: Apache-2.0
// The floating-point control word of the calling thread: rounding and the treatment of denormals.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace npugraph::runtime {

#if defined(__x86_64__)
// Without the sticky exception flags, which are a result and no mode.
inline uint64_t fp_control() { return _mm_getcsr() & ~0x3fu; }
inline void set_fp_control(uint64_t word) { _mm_setcsr(static_cast<uint32_t>(word)); }
#elif defined(__aarch64__)
inline uint64_t fp_control() {
  uint64_t word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
inline void set_fp_control(uint64_t word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
#else
#error "fp_control.h has no code for this processor's floating-point control word"
#endif

}  // namespace npugraph::runtime
