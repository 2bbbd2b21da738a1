// SPDX-License-Identifier: Apache-2.0
// Generated matrix products against what the machine can do, measured in the same process on the same threads: multiply-adds
// on registers alone, and reads of 512 MB. Weights come from memory, as between the layers of a model: each call takes
// another of many copies. Prints a line of JSON for each product; `share` is of the limit that binds it, peak or bandwidth.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "benchmarks/cpp/timing.h"
#include "codegen/matmul.h"

namespace npugraph {
namespace {

constexpr int kRuns = 5;

struct Bytes {
  explicit Bytes(size_t size) : size(size), data(static_cast<char*>(std::aligned_alloc(64, (size + 63) / 64 * 64))) {
    std::memset(data, 0, size);
  }
  ~Bytes() { std::free(data); }
  Bytes(const Bytes&) = delete;
  size_t size;
  char* data;
};

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

struct Limits {
  double f32 = 0, bf16 = 0, bytes = 0;  // a second
};

#if defined(__x86_64__)

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

Limits measure_limits(const target::Target& target) {
  Limits limits;
  if (target.level == target::Level::kX86V4) limits.f32 = flops(multiply_f32, kChains * 32);
  if (target.level == target::Level::kX86V3) limits.f32 = flops(multiply_f32_narrow, kChains / 2 * 16);
  if (target.bf16_dot) limits.bf16 = flops(multiply_bf16, kChains * 64);
  const Bytes memory(size_t{512} << 20);
  const size_t part = memory.size / parts() / 512 * 512;
  const double spent =
      best_seconds(kRuns, [&] { on_all_threads([&](int64_t i) { read_bytes(memory.data + i * part, part); }); });
  limits.bytes = static_cast<double>(memory.size) / spent;
  return limits;
}

#else

Limits measure_limits(const target::Target&) { return {}; }

#endif

struct Shape {
  int64_t m, n, k;
  bool b_is_nk = true;
};

struct Buffer {
  Buffer(DType dtype, int64_t rows, int64_t columns)
      : sizes{rows, columns}, strides{columns, 1}, dtype(dtype), memory(rows * columns * size_of(dtype)) {}
  ng_buffer at(char* data) const { return {data, nullptr, sizes, strides, 2, static_cast<int32_t>(dtype)}; }
  int64_t sizes[2], strides[2];
  DType dtype;
  Bytes memory;
};

void measure(const target::Target& target, const Limits& limits, DType dtype, const Shape& s) {
  const ng_task task =
      codegen::make_matmul({.a = dtype, .b = dtype, .c = dtype, .b_is_nk = s.b_is_nk, .epilogue = {}}, target);
  const int64_t weight_bytes = s.n * s.k * size_of(dtype);
  const int64_t copies = std::max<int64_t>((int64_t{192} << 20) / weight_bytes, 1);
  const Buffer a(dtype, s.m, s.k), c(dtype, s.m, s.n);
  Buffer b(dtype, copies * (s.b_is_nk ? s.n : s.k), s.b_is_nk ? s.k : s.n);
  b.sizes[0] /= copies;
  ng_buffer buffers[] = {a.at(a.memory.data), b.at(b.memory.data), c.at(c.memory.data)};
  ng_host host{.self = nullptr,
               .workers = runtime::WorkerPool::instance().size(),
               .parallel_for = parallel_for,
               .set_error = nullptr};
  ng_call call{.buffers = buffers, .num_buffers = 3, .abi_version = NG_TASK_ABI_VERSION};
  void* state = nullptr;
  const double bind_start = seconds();
  if (task.bind(task.context, &call, &state) != NG_OK) std::abort();
  const double build_ms = (seconds() - bind_start) * 1e3;
  const Bytes workspace(task.workspace(task.context, &call));
  call.workspace = workspace.data;
  call.host = &host;
  int64_t copy = 0;
  const double spent = best_seconds(kRuns, [&] {
    buffers[1].data = b.memory.data + copy++ % copies * weight_bytes;
    task.run(task.context, state, &call);
  });
  task.unbind(task.context, state);
  task.destroy(task.context);

  const double flop = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  const double peak = dtype == DType::kBF16 ? limits.bf16 : limits.f32;
  const double bytes = static_cast<double>(weight_bytes);
  const double least = std::max(peak > 0 ? flop / peak : 0, limits.bytes > 0 ? bytes / limits.bytes : 0);
  std::printf(
      "{\"dtype\": \"%s\", \"b\": \"%s\", \"m\": %ld, \"n\": %ld, \"k\": %ld, \"us\": %.1f, \"gflops\": %.0f, "
      "\"gbs\": %.1f, \"limit\": \"%s\", \"share\": %.3f, \"build_ms\": %.1f}\n",
      dtype == DType::kBF16 ? "bf16" : "f32", s.b_is_nk ? "nk" : "kn", s.m, s.n, s.k, spent * 1e6, flop / spent * 1e-9,
      bytes / spent * 1e-9, peak > 0 && flop / peak >= least ? "peak" : "bandwidth", least / spent, build_ms);
  std::fflush(stdout);
}

// Prints the limits of this machine, then how near to them products come.
int run(bool limits_only) {
  runtime::WorkerPool::instance().begin_replay();
  const target::Target& target = target::host_target();
  const Limits limits = measure_limits(target);
  std::printf("{\"threads\": %d, \"f32_gflops\": %.0f, \"bf16_gflops\": %.0f, \"read_gbs\": %.1f}\n",
              runtime::WorkerPool::instance().size(), limits.f32 * 1e-9, limits.bf16 * 1e-9, limits.bytes * 1e-9);
  if (limits_only) return 0;
  constexpr Shape kShapes[] = {
      {128, 768, 768},  {128, 2304, 768}, {128, 3072, 768},        {128, 768, 3072},        {512, 768, 768},
      {512, 3072, 768}, {512, 768, 3072}, {128, 2304, 768, false}, {128, 768, 3072, false}, {16, 3072, 768},
      {32, 3072, 768},  {1, 768, 768},    {1, 3072, 768},          {1, 49152, 576},         {1, 4096, 4096},
      {4, 4096, 4096},  {8, 4096, 4096},  {1, 3072, 768, false},   {1, 4096, 4096, false},
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Shape& shape : kShapes) measure(target, limits, dtype, shape);
  }
  runtime::WorkerPool::instance().end_replay();
  return 0;
}

}  // namespace
}  // namespace npugraph

int main(int argc, char** argv) { return npugraph::run(argc > 1 && std::string_view(argv[1]) == "--limits"); }
