// SPDX-License-Identifier: Apache-2.0
// A collective between processes in a captured graph, as two tasks: one begins it, and one waits for it. They may be in
// different Programs of the graph.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "abi/task.h"
#include "backend/bridge/collective_task.h"
#include "device/capture/registry.h"
#include "device/npu/collective_recorder.h"
#include "program/program.h"

namespace npugraph::capture {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

class CollectiveCall final : public npu::RecordedCollective {
 public:
  // Begins the collective on tensors with the sizes, strides and devices of those in the capture.
  using Begin = std::function<WorkPtr(const Tensors& inputs, const Tensors& outputs)>;

  // `name` is the name of the task that begins the collective, `group` the name of the process group.
  CollectiveCall(std::string name, std::string group, size_t inputs, Begin begin)
      : name_(std::move(name)), group_(std::move(group)), inputs_(inputs), begin_(std::move(begin)) {}

  const std::string& name() const { return name_; }
  const std::string& group() const { return group_; }

  // Sets the point at which the capture has begun it. Called once, by the capture, before others get this object.
  void set_begun(Mark begun) { begun_ = std::move(begun); }
  // Records the wait in the graph if it is the first one, and the capture is still in progress.
  void await() const override;

  // Makes the tasks for replays. Their operands are the inputs, then the outputs. One replay at a time.
  ng_task build(const std::shared_ptr<CollectiveCall>& self, const program::Program& program,
                const program::Task& task);
  // Waits for a collective that a failed replay has left pending, and ignores its error.
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

// A collective that a capture has begun, and for which nothing has waited yet.
struct BegunCollective {
  std::shared_ptr<CollectiveCall> call;
  WorkPtr work;
  Tensors inputs, outputs;

  // Whether an operator that reads, or writes, `tensor` must come after the collective.
  bool precedes(const at::Tensor& tensor, bool writes) const;
};

// Lets process groups record their collectives in captures (device/npu/collective_recorder.h).
void install_collective_recorder();

}  // namespace npugraph::capture
