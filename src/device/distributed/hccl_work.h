// SPDX-License-Identifier: Apache-2.0
// The handle of a collective or transfer of a process group.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "device/npu/collective_recorder.h"

namespace npugraph::distributed {

class HcclWork final : public c10d::Work {
 public:
  // `title` is the name in profiles and must have static lifetime. The tensors are those that the caller passed.
  HcclWork(int rank, c10d::OpType type, const char* title, uint64_t sequence, const std::vector<at::Tensor>& inputs,
           std::vector<at::Tensor> outputs);

  // Makes it part of a captured graph: wait() also awaits `calls` there. To be called before others have this object.
  using Recorded = std::vector<std::shared_ptr<const npu::RecordedCollective>>;
  void be_recorded(const Recorded& calls);
  const Recorded& recorded() const { return recorded_; }

  // Ends it, with `error` if that is not null, and runs the callbacks of the future. To be called once, in any thread.
  void complete(std::exception_ptr error, int source_rank = -1);

  bool isCompleted() override { return future_->completed(); }
  bool isSuccess() const override { return future_->completed() && !future_->hasError(); }
  // When it returns, the future is completed, too. A timeout of 0 means no timeout.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  int sourceRank() const override { return source_rank_; }
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  uint64_t getSequencenumber() const override { return sequence_; }

 private:
  const char* title_;
  uint64_t sequence_;
  std::vector<at::Tensor> outputs_;
  Recorded recorded_;
  int source_rank_ = -1;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace npugraph::distributed
