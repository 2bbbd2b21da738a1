// SPDX-License-Identifier: Apache-2.0
// A task bound to buffers, as the runtime binds it.
#pragma once

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "benchmarks/cpp/limits.h"
#include "benchmarks/cpp/timing.h"

namespace npugraph {

class TaskRun {
 public:
  // What `buffers` point to must outlive this.
  TaskRun(const ng_task& task, std::vector<ng_buffer> buffers) : task_(task), buffers_(std::move(buffers)) {
    host_ = {.self = nullptr,
             .workers = runtime::WorkerPool::instance().size(),
             .parallel_for = parallel_for,
             .set_error = nullptr};
    call_.buffers = buffers_.data();
    call_.num_buffers = static_cast<uint32_t>(buffers_.size());
    call_.abi_version = NG_TASK_ABI_VERSION;
    if (task_.bind != nullptr && task_.bind(task_.context, &call_, &state_) != NG_OK) std::abort();
    const int64_t bytes = task_.workspace == nullptr ? 0 : task_.workspace(task_.context, &call_);
    workspace_ = std::make_unique<Bytes>(static_cast<size_t>(bytes));
    call_.workspace = workspace_->data;
    call_.host = &host_;
  }
  ~TaskRun() {
    if (task_.unbind != nullptr) task_.unbind(task_.context, state_);
    task_.destroy(task_.context);
  }
  TaskRun(const TaskRun&) = delete;

  ng_buffer& buffer(size_t i) { return buffers_[i]; }
  void run() {
    if (task_.run(task_.context, state_, &call_) != NG_OK) std::abort();
  }

 private:
  ng_task task_;
  std::vector<ng_buffer> buffers_;
  ng_host host_{};
  ng_call call_{};
  void* state_ = nullptr;
  std::unique_ptr<Bytes> workspace_;
};

// Memory full of numbers below 1, of f32 as of bf16.
inline void fill(Bytes& bytes) {
  auto* words = reinterpret_cast<uint32_t*>(bytes.data);
  for (size_t i = 0; i < bytes.size / 4; ++i) words[i] = 0x3f403f40U + static_cast<uint32_t>(i * 37 & 0x3f);
}

}  // namespace npugraph
