// SPDX-License-Identifier: Apache-2.0
// Generated matrix products against what the machine can do (limits.h), measured in the same process on the same
// threads. Weights come from memory, as between the layers of a model: each call takes another of many copies. Prints a
// line of JSON for each product; `share` is of the limit that binds it, peak or bandwidth.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "benchmarks/cpp/limits.h"
#include "benchmarks/cpp/timing.h"
#include "codegen/matmul/matmul.h"

namespace npugraph {
namespace {

constexpr int kRuns = 25;

struct Shape {
  int64_t m, n, k;
  std::string_view form =
      "nk";  // B lies as [n, k]; "kn": as [k, n]; "tkn": and A as [k, m], as for gradients of weights
  bool b_is_nk() const { return form == "nk"; }
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
      codegen::make_matmul({.a = dtype, .b = dtype, .c = dtype, .b_is_nk = s.b_is_nk(), .epilogue = {}}, target);
  const int64_t weight_bytes = s.n * s.k * size_of(dtype);
  const int64_t copies = std::max<int64_t>((int64_t{192} << 20) / weight_bytes, 1);
  Buffer a(dtype, s.m, s.k);
  if (s.form == "tkn") std::tie(a.strides[0], a.strides[1]) = std::pair(int64_t{1}, s.m);
  const Buffer c(dtype, s.m, s.n);
  Buffer b(dtype, copies * (s.b_is_nk() ? s.n : s.k), s.b_is_nk() ? s.k : s.n);
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
  const double least = std::max(peak > 0 ? flop / peak : 0, limits.read > 0 ? bytes / limits.read : 0);
  std::printf(
      "{\"dtype\": \"%s\", \"b\": \"%s\", \"m\": %ld, \"n\": %ld, \"k\": %ld, \"us\": %.1f, \"gflops\": %.0f, "
      "\"gbs\": %.1f, \"limit\": \"%s\", \"share\": %.3f, \"build_ms\": %.1f}\n",
      dtype == DType::kBF16 ? "bf16" : "f32", std::string(s.form).c_str(), s.m, s.n, s.k, spent * 1e6,
      flop / spent * 1e-9, bytes / spent * 1e-9, peak > 0 && flop / peak >= least ? "peak" : "bandwidth", least / spent,
      build_ms);
  std::fflush(stdout);
}

// Prints the limits of this machine, then how near to them products come: those of `only`, or of a list.
int run(const std::vector<Shape>& only) {
  runtime::WorkerPool::instance().begin_replay();
  const target::Target& target = target::host_target();
  const Limits limits = measure_limits(target);
  std::printf("{\"threads\": %d, \"f32_gflops\": %.0f, \"bf16_gflops\": %.0f, \"read_gbs\": %.1f}\n",
              runtime::WorkerPool::instance().size(), limits.f32 * 1e-9, limits.bf16 * 1e-9, limits.read * 1e-9);
  const std::vector<Shape> usual = {
      {128, 768, 768},  {128, 2304, 768},     {128, 3072, 768},       {128, 768, 3072},        {512, 768, 768},
      {512, 3072, 768}, {512, 768, 3072},     {128, 2304, 768, "kn"}, {128, 768, 3072, "kn"},  {16, 3072, 768},
      {32, 3072, 768},  {197, 768, 768},      {197, 3072, 768},       {197, 768, 3072},        {50, 3072, 768},
      {1, 768, 768},    {1, 3072, 768},       {1, 49152, 576},        {1, 4096, 4096},         {4, 4096, 4096},
      {8, 4096, 4096},  {1, 3072, 768, "kn"}, {1, 4096, 4096, "kn"},  {768, 3072, 512, "tkn"},
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Shape& shape : only.empty() ? usual : only) measure(target, limits, dtype, shape);
  }
  runtime::WorkerPool::instance().end_replay();
  return 0;
}

}  // namespace
}  // namespace npugraph

// Arguments: of any number of products M N K and nk, kn, or tkn if A is turned, too.
int main(int argc, char** argv) {
  std::vector<npugraph::Shape> only;
  for (int i = 1; i + 3 < argc; i += 4)
    only.push_back({std::atol(argv[i]), std::atol(argv[i + 1]), std::atol(argv[i + 2]), argv[i + 3]});
  return npugraph::run(only);
}
