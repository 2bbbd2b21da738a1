// SPDX-License-Identifier: Apache-2.0
// Generated convolutions of one image: layers of ResNet-50, of MobileNetV2 and ConvNeXt (depthwise), and of ViT.
// Weights of one of several layers are taken by turns. Prints a line of JSON for each case.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "benchmarks/cpp/timing.h"
#include "codegen/convolution/convolution.h"

namespace npugraph {
namespace {

constexpr int kRuns = 7;
constexpr int64_t kLayers = 4;

struct Case {
  int64_t in, out, kernel, stride, size, groups = 1;

  int64_t padding() const { return kernel == stride ? 0 : kernel / 2; }
  int64_t out_size() const { return (size + 2 * padding() - kernel) / stride + 1; }
};

class Dense {
 public:
  Dense(DType dtype, int64_t copies, std::vector<int64_t> sizes) : dtype_(dtype), sizes_(std::move(sizes)) {
    strides_.assign(sizes_.size(), 1);
    for (size_t d = sizes_.size() - 1; d > 0; --d) strides_[d - 1] = strides_[d] * sizes_[d];
    bytes_ = strides_[0] * sizes_[0] * size_of(dtype);
    memory_.resize(static_cast<size_t>(copies * bytes_));
  }
  ng_buffer at(int64_t copy) {
    return {
        memory_.data() + copy * bytes_, nullptr, sizes_.data(), strides_.data(), static_cast<int32_t>(sizes_.size()),
        static_cast<int32_t>(dtype_)};
  }

 private:
  DType dtype_;
  std::vector<int64_t> sizes_, strides_;
  int64_t bytes_ = 0;
  std::vector<char> memory_;
};

void measure(DType dtype, const Case& c) {
  const loop::Convolution convolution{
      .groups = c.groups, .stride = {c.stride, c.stride}, .padding = {c.padding(), c.padding()}, .dilation = {1, 1}};
  const ng_task task = codegen::make_convolution({convolution, dtype, {}}, target::host_target());
  Dense weights(dtype, kLayers, {c.out, c.in / c.groups, c.kernel, c.kernel});
  Dense image(dtype, 1, {1, c.in, c.size, c.size}), out(dtype, 1, {1, c.out, c.out_size(), c.out_size()});
  ng_buffer buffers[] = {weights.at(0), image.at(0), out.at(0)};
  const ng_host host{.self = nullptr,
                     .workers = runtime::WorkerPool::instance().size(),
                     .parallel_for = parallel_for,
                     .set_error = nullptr};
  ng_call call{.buffers = buffers, .num_buffers = 3, .abi_version = NG_TASK_ABI_VERSION};
  void* state = nullptr;
  if (task.bind(task.context, &call, &state) != NG_OK) std::abort();
  const int64_t bytes = task.workspace(task.context, &call);
  const std::unique_ptr<char, decltype(&std::free)> workspace(
      static_cast<char*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)), &std::free);
  call.workspace = workspace.get();
  call.host = &host;
  int64_t layer = 0;
  const double spent = best_seconds(kRuns, [&] {
    buffers[0] = weights.at(layer++ % kLayers);
    task.run(task.context, state, &call);
  });
  task.unbind(task.context, state);
  task.destroy(task.context);
  const double flop = 2.0 * static_cast<double>(c.out * c.in / c.groups * c.kernel * c.kernel) *
                      static_cast<double>(c.out_size() * c.out_size());
  std::printf(
      "{\"dtype\": \"%s\", \"in\": %ld, \"out\": %ld, \"kernel\": %ld, \"stride\": %ld, \"size\": %ld, \"groups\": "
      "%ld, "
      "\"us\": %.1f, \"gflops\": %.0f, \"workspace_kb\": %ld}\n",
      dtype == DType::kBF16 ? "bf16" : "f32", c.in, c.out, c.kernel, c.stride, c.size, c.groups, spent * 1e6,
      flop / spent * 1e-9, bytes / 1024);
  std::fflush(stdout);
}

int run() {
  runtime::WorkerPool::instance().begin_replay();
  constexpr Case kCases[] = {
      {3, 64, 7, 2, 224},      {64, 64, 1, 1, 56},      {64, 64, 3, 1, 56},        {64, 256, 1, 1, 56},
      {256, 64, 1, 1, 56},     {128, 128, 3, 2, 56},    {256, 512, 1, 2, 56},      {128, 128, 3, 1, 28},
      {512, 128, 1, 1, 28},    {128, 512, 1, 1, 28},    {256, 256, 3, 2, 28},      {256, 256, 3, 1, 14},
      {256, 1024, 1, 1, 14},   {1024, 256, 1, 1, 14},   {512, 512, 3, 1, 7},       {2048, 512, 1, 1, 7},
      {512, 2048, 1, 1, 7},    {3, 768, 16, 16, 224},   {96, 96, 7, 1, 56, 96},    {768, 768, 7, 1, 7, 768},
      {32, 32, 3, 1, 112, 32}, {96, 96, 3, 2, 112, 96}, {384, 384, 3, 1, 14, 384}, {128, 128, 3, 1, 56, 32},
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    if (dtype == DType::kBF16 && !target::host_target().bf16_dot) continue;
    for (const Case& c : kCases) measure(dtype, c);
  }
  runtime::WorkerPool::instance().end_replay();
  return 0;
}

}  // namespace
}  // namespace npugraph

int main() { return npugraph::run(); }
