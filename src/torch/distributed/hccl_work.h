// SPDX-License-Identifier: Apache-2.0
// The handle of a collective or transfer that a process group was asked for.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "torch/npu/collective_recorder.h"

namespace npugraph::distributed {

class HcclWork final : public c10d::Work {
 public:
  // `title` is what the profiler says, and valid for ever. The tensors are those that the caller gave.
  HcclWork(int rank, c10d::OpType type, const char* title, uint64_t sequence, const std::vector<at::Tensor>& inputs,
           std::vector<at::Tensor> outputs);

  // It is part of a captured graph: who waits for it waits in the graph. Before others have this object.
  using Recorded = std::vector<std::shared_ptr<const npu::RecordedCollective>>;
  void be_recorded(const Recorded& calls);
  const Recorded& recorded() const { return recorded_; }

  // Once, from any thread: it has ended, with `error` if that is one. Runs what waits for the future.
  void complete(std::exception_ptr error, int source_rank = -1);

  bool isCompleted() override { return future_->completed(); }
  bool isSuccess() const override { return future_->completed() && !future_->hasError(); }
  // When it returns, the future is done, too. A timeout of 0 is none.
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
