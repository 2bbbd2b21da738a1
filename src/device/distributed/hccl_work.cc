// SPDX-License-Identifier: Apache-2.0
#include "device/distributed/hccl_work.h"

#include <utility>

namespace npugraph::distributed {

HcclWork::HcclWork(int rank, c10d::OpType type, const char* title, uint64_t sequence,
                   const std::vector<at::Tensor>& inputs, std::vector<at::Tensor> outputs)
    : Work(rank, type, title, inputs),
      title_(title),
      sequence_(sequence),
      outputs_(std::move(outputs)),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {}

void HcclWork::be_recorded(const Recorded& calls) { recorded_.insert(recorded_.end(), calls.begin(), calls.end()); }

void HcclWork::complete(std::exception_ptr error, int source_rank) {
  source_rank_ = source_rank;
  finish(error);
  if (error)
    future_->setError(std::move(error));
  else
    future_->markCompleted(c10::IValue(outputs_));
}

bool HcclWork::wait(std::chrono::milliseconds timeout) {
  {
    std::unique_lock lock(mutex_);
    if (timeout == kNoTimeout) cv_.wait(lock, [this] { return completed_; });
    const bool ended = completed_ || cv_.wait_for(lock, timeout, [this] { return completed_; });
    if (!ended)
      C10_THROW_ERROR(DistBackendError, c10::str(title_, ": not done after ", timeout.count(), " ms of wait()"));
  }
  future_->waitAndThrow();  // short: complete() completes the future right after this
  for (const auto& call : recorded_) call->await();
  return true;
}

}  // namespace npugraph::distributed
