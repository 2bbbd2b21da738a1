// SPDX-License-Identifier: Apache-2.0
// Generated loops on one core: bytes read and written per second, beside memcpy at the same size, and milliseconds to
// build each kernel. Prints a table; NPUGRAPH_TARGET chooses a lower baseline.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/trace.h"
#include "codegen/kernel/emit.h"
#include "codegen/kernel/kernel.h"
#include "loop/builder.h"

namespace npugraph::codegen {
namespace {

using loop::BufferId;
using loop::Builder;
using loop::Combine;
using loop::Kernel;
using loop::Op;
using loop::Value;

struct Case {
  Kernel kernel;
  DType dtype;
  int64_t columns;
  int arrays_touched;  // of rows * columns elements, read or written
};

Case pointwise(const char* name, DType dtype, bool two, bool streaming, Value (*compute)(Value, Value)) {
  Builder b(name);
  const Expr m = b.scalar("m");
  const BufferId x = b.in("x", dtype), w = b.in("w", dtype), y = b.out("y", dtype);
  constexpr int64_t kColumns = 8192;
  b.parallel_for(m, 1, [&](const Expr& i) {
    b.vector_for(kColumns, [&](const Expr& j) {
      const Value first = cast(b.load(x, i * kColumns + j), DType::kF32);
      const Value second = two ? cast(b.load(w, i * kColumns + j), DType::kF32) : first;
      b.store(y, i * kColumns + j, cast(compute(first, second), dtype), {}, streaming);
    });
  });
  return {b.finish(), dtype, kColumns, two ? 3 : 2};
}

Case softmax(int64_t columns, bool streaming) {
  Builder b("softmax");
  const Expr m = b.scalar("m");
  const BufferId x = b.in("x", DType::kF32), w = b.in("w", DType::kF32), y = b.out("y", DType::kF32);
  (void)w;
  const BufferId t = b.local("t", DType::kF32, columns);
  b.parallel_for(m, 1, [&](const Expr& i) {
    Value largest, sum;
    b.vector_for(columns, [&](const Expr& j) { largest = b.reduce(Combine::kMax, b.load(x, i * columns + j)); });
    b.vector_for(columns, [&](const Expr& j) {
      const Value e = unary(Op::kExp, b.load(x, i * columns + j) - largest);
      b.store(t, j, e);
      sum = b.sum(e);
    });
    const Value scale = unary(Op::kReciprocal, sum);
    b.vector_for(columns, [&](const Expr& j) { b.store(y, i * columns + j, b.load(t, j) * scale, {}, streaming); });
  });
  return {b.finish(), DType::kF32, columns, 2};
}

Case layer_norm(DType dtype, int64_t columns, bool streaming) {
  Builder b("layer_norm");
  const Expr m = b.scalar("m");
  const BufferId x = b.in("x", dtype), w = b.in("w", dtype), y = b.out("y", dtype);
  const auto at = [&](BufferId buffer, const Expr& e) { return cast(b.load(buffer, e), DType::kF32); };
  b.parallel_for(m, 1, [&](const Expr& i) {
    Value sum, squares;
    b.vector_for(columns, [&](const Expr& j) { sum = b.sum(at(x, i * columns + j)); });
    const Value mean = sum * (1.0 / static_cast<double>(columns));
    b.vector_for(columns, [&](const Expr& j) {
      const Value d = at(x, i * columns + j) - mean;
      squares = b.sum(d * d);
    });
    const Value scale = unary(Op::kRsqrt, squares * (1.0 / static_cast<double>(columns)) + 1e-5);
    b.vector_for(columns, [&](const Expr& j) {
      const Value out = (at(x, i * columns + j) - mean) * scale * at(w, j);
      b.store(y, i * columns + j, cast(out, dtype), {}, streaming);
    });
  });
  return {b.finish(), dtype, columns, 2};
}

std::vector<Case> all_cases(bool streaming) {
  const auto copy = [](Value x, Value) { return x; };
  const auto add = [](Value x, Value y) { return x + y; };
  const auto gelu = [](Value x, Value) { return x * 0.5 * (unary(Op::kErf, x * 0.7071067811865476) + 1.0); };
  return {pointwise("copy_f32", DType::kF32, false, streaming, copy),
          pointwise("add_f32", DType::kF32, true, streaming, add),
          pointwise("add_bf16", DType::kBF16, true, streaming, add),
          pointwise("gelu_f32", DType::kF32, false, streaming, gelu),
          softmax(1024, streaming),
          layer_norm(DType::kF32, 768, streaming),
          layer_norm(DType::kBF16, 768, streaming)};
}

template <typename Fn>
double best_seconds(Fn fn, int64_t bytes) {
  const int calls = static_cast<int>(std::max<int64_t>(1, (16 << 20) / bytes));
  double best = 1e30;
  for (int run = 0; run < 7; ++run) {
    const int64_t start = now_ns();
    for (int call = 0; call < calls; ++call) fn();
    best = std::min(best, static_cast<double>(now_ns() - start) / 1e9 / calls);
  }
  return best;
}

// Memory full of numbers below 1, of f32 as of bf16.
std::unique_ptr<char, decltype(&std::free)> memory(int64_t bytes) {
  auto* data = static_cast<char*>(std::aligned_alloc(4096, static_cast<size_t>((bytes + 4095) / 4096 * 4096)));
  auto* words = reinterpret_cast<uint32_t*>(data);
  for (int64_t i = 0; i < bytes / 4; ++i) words[i] = 0x3f403f40U + static_cast<uint32_t>(i * 37 & 0x3f);
  return {data, std::free};
}

double gigabytes_per_second(const Case& c, int64_t bytes_touched) {
  const int64_t rows = std::max<int64_t>(1, bytes_touched / (c.arrays_touched * c.columns * size_of(c.dtype)));
  const int64_t bytes = rows * c.columns * size_of(c.dtype);
  auto x = memory(bytes), w = memory(bytes), y = memory(bytes), workspace = memory(1 << 22);
  ng_buffer buffers[] = {{.data = x.get()}, {.data = w.get()}, {.data = y.get()}};
  ng_scalar scalars[] = {{.i = rows}};
  const ng_host host = {nullptr, 1, nullptr, nullptr};
  ng_call call = {};
  call.buffers = buffers;
  call.scalars = scalars;
  call.workspace = workspace.get();
  call.num_buffers = 3;
  call.num_scalars = 1;
  const ng_task task = make_kernel_task(c.kernel, target::host_target());
  void* state = nullptr;
  if (task.bind) task.bind(task.context, &call, &state);
  call.host = &host;
  const double seconds = best_seconds([&] { task.run(task.context, state, &call); }, bytes);
  if (task.unbind) task.unbind(task.context, state);
  task.destroy(task.context);
  return static_cast<double>(bytes * c.arrays_touched) / seconds / 1e9;
}

double memcpy_gigabytes_per_second(int64_t bytes_touched) {
  const int64_t bytes = bytes_touched / 2;
  auto x = memory(bytes), y = memory(bytes);
  const double seconds = best_seconds(
      [&] {
        std::memcpy(y.get(), x.get(), static_cast<size_t>(bytes));
        asm volatile("" : : "r"(y.get()) : "memory");
      },
      bytes);
  return static_cast<double>(2 * bytes) / seconds / 1e9;
}

void report_build(const Case& c) {
  const target::Target& target = target::host_target();
  double emit = 1e30, build = 1e30;
  for (int run = 0; run < 20; ++run) {
    const int64_t start = now_ns();
    IrModule ir = emit_kernel(c.kernel, target);
    const int64_t emitted = now_ns();
    const auto code = compile(std::move(ir), target);
    emit = std::min(emit, static_cast<double>(emitted - start) / 1e6);
    build = std::min(build, static_cast<double>(now_ns() - emitted) / 1e6);
  }
  std::printf("%-12s %-5s %8.2f %8.2f\n", c.kernel.name.c_str(), std::string(name_of(c.dtype)).c_str(), emit, build);
}

void report_speed(const std::vector<Case>& cached) {
  constexpr int64_t kSizes[] = {256 << 10, 8 << 20, 256 << 20};
  std::printf("%s\nGB/s               256 KB     8 MB   256 MB\n",
              target::host_target().level.c_str());
  std::printf("%-12s      ", "memcpy");
  for (const int64_t size : kSizes) std::printf(" %8.1f", memcpy_gigabytes_per_second(size));
  const std::vector<Case> streamed = all_cases(true);
  for (size_t i = 0; i < cached.size(); ++i) {
    std::printf("\n%-12s %-5s", cached[i].kernel.name.c_str(), std::string(name_of(cached[i].dtype)).c_str());
    for (const int64_t size : kSizes)
      std::printf(" %8.1f", gigabytes_per_second(size > (64 << 20) ? streamed[i] : cached[i], size));
  }
  std::printf("\n\n");
}

void report_all(bool speed) {
  const std::vector<Case> cached = all_cases(false);
  if (speed) report_speed(cached);
  std::printf("ms                  emit  compile\n");
  for (const Case& c : cached) report_build(c);
}

}  // namespace
}  // namespace npugraph::codegen

// With an argument: the times to build alone.
int main(int argc, char**) { npugraph::codegen::report_all(argc < 2); }
