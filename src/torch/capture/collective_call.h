// SPDX-License-Identifier: Apache-2.0
// A collective between processes inside of a captured graph: two tasks, of which one begins it and one waits for it. They may be in
// different Programs of the graph.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "abi/task.h"
#include "program/program.h"
#include "torch/bridge/under_way.h"
#include "torch/capture/registry.h"
#include "torch/npu/collective_recorder.h"

namespace npugraph::capture {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

class CollectiveCall final : public npu::RecordedCollective {
 public:
  // Begins it on CPU tensors that are like those of the capture.
  using Begin = std::function<WorkPtr(const Tensors& inputs, const Tensors& outputs)>;

  // `name` is that of the task that begins, `group` that of the process group.
  CollectiveCall(std::string name, std::string group, size_t inputs, Begin begin)
      : name_(std::move(name)), group_(std::move(group)), inputs_(inputs), begin_(std::move(begin)) {}

  const std::string& name() const { return name_; }
  const std::string& group() const { return group_; }

  // Where the capture has begun it. Once, by the capture, before others have this object.
  void set_begun(Mark begun) { begun_ = std::move(begun); }
  // The wait is part of the graph when it is the first one, and the capture goes on.
  void await() const override;

  // Replays. The task's operands are the inputs, then the outputs. One replay at a time.
  ng_task build(const std::shared_ptr<CollectiveCall>& self, const program::Program& program,
                const program::Task& task);
  // Waits for what a replay that failed has left, without its error.
  void drop() { under_way_.reset(); }

 private:
  class BeginTask;
  class WaitTask;

  const std::string name_, group_;
  const size_t inputs_;
  const Begin begin_;
  Mark begun_;
  c10::intrusive_ptr<bridge::UnderWay> under_way_;
};

// One that a capture has begun, and that nobody has waited for.
struct BegunCollective {
  std::shared_ptr<CollectiveCall> call;
  WorkPtr work;
  Tensors inputs, outputs;

  // Whether an operator that reads, or writes, `tensor` must come after the collective.
  bool precedes(const at::Tensor& tensor, bool writes) const;
};

}  // namespace npugraph::capture
