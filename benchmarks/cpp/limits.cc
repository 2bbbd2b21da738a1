// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/cpp/limits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "benchmarks/cpp/timing.h"

namespace npugraph {

#if defined(__x86_64__)

namespace {

constexpr int kRuns = 5;

// Parts that threads take by turns, so that none waits for a thread that comes late.
int64_t parts() { return 4 * runtime::WorkerPool::instance().size(); }

template <typename Body>
void on_all_threads(Body body) {
  runtime::WorkerPool::instance().parallel_for(
      0, parts(), 1,
      [](void* arg, int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) (*static_cast<Body*>(arg))(i);
      },
      &body);
}

constexpr int kChains = 24;
constexpr int kRounds = 100000;

[[gnu::target("avx512f"), gnu::noinline]] void multiply_f32() {
  __m512 x = _mm512_setzero_ps(), sums[kChains] = {};
  for (__m512& sum : sums) asm volatile("" : "+v"(sum));
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 24
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(x, x, sums[i]);
    asm volatile("" : "+v"(x));
  }
  for (__m512& sum : sums) asm volatile("" : "+v"(sum));
}

[[gnu::target("avx2,fma"), gnu::noinline]] void multiply_f32_narrow() {
  __m256 x = _mm256_setzero_ps(), sums[kChains / 2] = {};
  for (__m256& sum : sums) asm volatile("" : "+x"(sum));
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains / 2; ++i) sums[i] = _mm256_fmadd_ps(x, x, sums[i]);
    asm volatile("" : "+x"(x));
  }
  for (__m256& sum : sums) asm volatile("" : "+x"(sum));
}

[[gnu::target("avx512f,avx512bf16"), gnu::noinline]] void multiply_bf16() {
  __m512 sums[kChains] = {};
  __m512i bits = _mm512_setzero_si512();
  for (__m512& sum : sums) asm volatile("" : "+v"(sum));
  for (int round = 0; round < kRounds; ++round) {
    const auto x = (__m512bh)bits;
#pragma GCC unroll 24
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], x, x);
    asm volatile("" : "+v"(bits));
  }
  for (__m512& sum : sums) asm volatile("" : "+v"(sum));
}

constexpr int64_t kFlopsOfAmx = 4 * 2 * 16 * 16 * 32;  // of a round of multiply_amx()

[[gnu::target("amx-tile,amx-bf16"), gnu::noinline]] void multiply_amx() {
  // Palette 1, and of each register the bytes of a row and the rows. Static: the intrinsic does not say that it reads
  // it all.
  static const struct alignas(64) {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  _tile_loadconfig(&config);
  for (int round = 0; round < kRounds; ++round) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

// Reads eight streams of one part of the memory.
[[gnu::target("avx2"), gnu::noinline]] void read_bytes(const char* from, size_t size) {
  constexpr int kStreams = 8;
  const size_t stream = size / kStreams / 64 * 64;
  __m256i any = _mm256_setzero_si256();
  for (size_t at = 0; at < stream; at += 64) {
#pragma GCC unroll 8
    for (int s = 0; s < kStreams; ++s) {
      const auto* line = reinterpret_cast<const __m256i*>(from + s * stream + at);
      _mm_prefetch(reinterpret_cast<const char*>(line) + 1024, _MM_HINT_T0);
      any = _mm256_or_si256(any, _mm256_or_si256(_mm256_load_si256(line), _mm256_load_si256(line + 1)));
    }
  }
  asm volatile("" : "+x"(any));
}

double flops(void (*multiply)(), int64_t each) {
  const double all = static_cast<double>(each) * kRounds * static_cast<double>(parts());
  return all / best_seconds(kRuns, [&] { on_all_threads([&](int64_t) { multiply(); }); });
}

[[gnu::target("avx2"), gnu::noinline]] void copy_bytes(char* to, const char* from, size_t size) {
  for (size_t at = 0; at < size; at += 32) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + at),
                       _mm256_load_si256(reinterpret_cast<const __m256i*>(from + at)));
  }
}

[[gnu::target("avx2"), gnu::noinline]] void copy_bytes_streaming(char* to, const char* from, size_t size) {
  for (size_t at = 0; at < size; at += 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at),
                        _mm256_load_si256(reinterpret_cast<const __m256i*>(from + at)));
  }
  _mm_sfence();
}

// Bytes a second of `body(i)` on each of parts() parts of `size` bytes in all.
template <typename Body>
double byte_rate(size_t size, Body body) {
  return static_cast<double>(size) / best_seconds(kRuns, [&] { on_all_threads(body); });
}

}  // namespace

Limits measure_limits(const target::Target& target) {
  Limits limits;
  if (target.masks) limits.f32 = flops(multiply_f32, kChains * 32);
  if (target.level == "x86-64-v3") limits.f32 = flops(multiply_f32_narrow, kChains / 2 * 16);
  if (target.bf16_dot) limits.bf16 = flops(multiply_bf16, kChains * 64);
  if (target.amx) limits.bf16 = flops(multiply_amx, kFlopsOfAmx);
  const Bytes memory(size_t{512} << 20);
  const size_t half = memory.size / 2, part = memory.size / parts() / 1024 * 1024;
  const char* from = memory.data;
  char* to = memory.data + half;
  limits.read = byte_rate(memory.size, [=](int64_t i) { read_bytes(from + i * part, part); });
  limits.copy =
      byte_rate(memory.size, [=](int64_t i) { copy_bytes(to + i * part / 2, from + i * part / 2, part / 2); });
  limits.copy_streaming = byte_rate(
      memory.size, [=](int64_t i) { copy_bytes_streaming(to + i * part / 2, from + i * part / 2, part / 2); });
  return limits;
}

#else

Limits measure_limits(const target::Target&) { return {}; }

#endif

}  // namespace npugraph
