// SPDX-License-Identifier: Apache-2.0
// Generated attention of prefill and decode steps. Decode takes keys and values of one of many layers by turns, so that
// they come from memory or the last cache, as in a model. Prints a line of JSON for each case; `gbs` counts keys and
// values.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "benchmarks/cpp/timing.h"
#include "codegen/attention/attention.h"

namespace npugraph {
namespace {

constexpr int kRuns = 7;

struct Case {
  int64_t heads, groups, queries, keys, size;
  bool causal = false;
  int64_t layers = 1;
  int64_t row = 0;  // elements from row to row, where heads of a row follow each other, as projections leave them
};

// Zeros: [layers][heads][rows][size], or [layers][rows][row], of which heads are the beginning.
struct Heads {
  Heads(DType dtype, int64_t layers, int64_t heads, int64_t rows, int64_t size, int64_t row)
      : sizes{1, heads, rows, size},
        strides{rows * (row == 0 ? heads * size : row), row == 0 ? rows * size : size, row == 0 ? size : row, 1},
        dtype(dtype),
        bytes(strides[0] * size_of(dtype)),
        memory(static_cast<char*>(std::aligned_alloc(64, static_cast<size_t>((layers * bytes + 63) / 64 * 64)))) {
    std::memset(memory, 0, static_cast<size_t>(layers * bytes));
  }
  ~Heads() { std::free(memory); }
  Heads(const Heads&) = delete;
  ng_buffer at(int64_t layer) const {
    return {memory + layer * bytes, nullptr, sizes, strides, 4, static_cast<int32_t>(dtype)};
  }

  int64_t sizes[4], strides[4];
  DType dtype;
  int64_t bytes;
  char* memory;
};

void measure(DType dtype, const Case& c) {
  const ng_task task = codegen::make_attention({.after = c.causal ? std::optional<int64_t>(0) : std::nullopt}, dtype,
                                               target::host_target());
  const Heads q(dtype, 1, c.heads, c.queries, c.size, c.row), k(dtype, c.layers, c.groups, c.keys, c.size, c.row),
      v(dtype, c.layers, c.groups, c.keys, c.size, c.row), out(dtype, 1, c.heads, c.queries, c.size, c.row);
  ng_buffer buffers[] = {q.at(0), k.at(0), v.at(0), out.at(0)};
  const ng_host host{.self = nullptr,
                     .workers = runtime::WorkerPool::instance().size(),
                     .parallel_for = parallel_for,
                     .set_error = nullptr};
  ng_call call{.buffers = buffers, .num_buffers = 4, .abi_version = NG_TASK_ABI_VERSION};
  void* state = nullptr;
  const double bind_start = seconds();
  if (task.bind(task.context, &call, &state) != NG_OK) std::abort();
  const double build_ms = (seconds() - bind_start) * 1e3;
  const std::unique_ptr<char, decltype(&std::free)> workspace(
      static_cast<char*>(std::aligned_alloc(64, (task.workspace(task.context, &call) + 127) / 64 * 64)), &std::free);
  call.workspace = workspace.get();
  call.host = &host;
  int64_t layer = 0;
  const double spent = best_seconds(kRuns, [&] {
    buffers[1] = k.at(layer % c.layers);
    buffers[2] = v.at(layer++ % c.layers);
    task.run(task.context, state, &call);
  });
  task.unbind(task.context, state);
  task.destroy(task.context);
  const double flop = 4.0 * static_cast<double>(c.heads * c.queries) * static_cast<double>(c.keys * c.size);
  std::printf(
      "{\"dtype\": \"%s\", \"heads\": %ld, \"groups\": %ld, \"queries\": %ld, \"keys\": %ld, \"size\": %ld, "
      "\"causal\": %s, \"row\": %ld, \"us\": %.1f, \"gflops\": %.0f, \"gbs\": %.1f, \"build_ms\": %.1f}\n",
      dtype == DType::kBF16 ? "bf16" : "f32", c.heads, c.groups, c.queries, c.keys, c.size, c.causal ? "true" : "false",
      c.row, spent * 1e6, flop / spent * 1e-9,
      static_cast<double>(2 * c.groups * c.keys * c.size * size_of(dtype)) / spent * 1e-9, build_ms);
  std::fflush(stdout);
}

int run(const std::vector<Case>& only) {
  runtime::WorkerPool::instance().begin_replay();
  const std::vector<Case> usual = {
      {12, 12, 128, 128, 64},
      {12, 12, 512, 512, 64},
      {12, 12, 512, 512, 64, true},
      {12, 12, 128, 128, 64, false, 1, 2304},
      {12, 12, 512, 512, 64, false, 1, 2304},
      {12, 12, 512, 512, 64, false, 1, 768},
      {9, 3, 128, 128, 64, true},
      {12, 12, 2048, 2048, 64},
      {9, 3, 1, 128, 64, false, 600},
      {9, 3, 1, 1500, 64, false, 120},
      {16, 8, 1, 1500, 128, false, 28},
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Case& c : only.empty() ? usual : only) measure(dtype, c);
  }
  runtime::WorkerPool::instance().end_replay();
  return 0;
}

}  // namespace
}  // namespace npugraph

// Arguments: of any number of cases HEADS GROUPS QUERIES KEYS SIZE, causal or all, and ROW.
int main(int argc, char** argv) {
  std::vector<npugraph::Case> only;
  for (int i = 1; i + 6 < argc; i += 7) {
    only.push_back({std::atol(argv[i]), std::atol(argv[i + 1]), std::atol(argv[i + 2]), std::atol(argv[i + 3]),
                    std::atol(argv[i + 4]), std::string_view(argv[i + 5]) == "causal", 1, std::atol(argv[i + 6])});
  }
  return npugraph::run(only);
}
