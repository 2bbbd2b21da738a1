// SPDX-License-Identifier: Apache-2.0
// How a process group reports its collectives to captures. The group knows only this interface; device/capture
// implements it. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <c10/util/FunctionRef.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace npugraph::npu {

// A collective that is part of a captured graph.
class RecordedCollective {
 public:
  virtual ~RecordedCollective() = default;
  // Makes the current stream wait for it; also in the graph, if the capture is still in progress.
  virtual void await() const = 0;
};

struct CollectiveLaunch {
  using Tensors = std::vector<at::Tensor>;
  using Work = c10::intrusive_ptr<c10d::Work>;

  std::string name;         // of its task, for example "hccl.all_reduce"
  std::string group;        // name of the process group
  const char* title;        // names the call in errors
  bool host_reads = false;  // the caller reads a number of the result, which captures refuse
  Tensors inputs, outputs;
  // Begins it at a replay, on tensors with the sizes, strides and devices of these.
  std::function<Work(const Tensors& inputs, const Tensors& outputs)> replay;
};

class CollectiveRecorder {
 public:
  virtual ~CollectiveRecorder() = default;
  // Whether any stream of the process is being captured. Fast.
  virtual bool is_watching() const = 0;
  // If `stream` is being captured, calls `run`, records the collective that it begins, and returns true. Otherwise
  // calls nothing and returns false.
  virtual bool record(
      CollectiveLaunch launch, c10::Stream stream,
      c10::function_ref<CollectiveLaunch::Work(const std::shared_ptr<const RecordedCollective>&)> run) const = 0;
};

// The recorder of the process; null if none was set.
const CollectiveRecorder* collective_recorder();
// To be called before the first collective. `recorder` must live as long as the process.
void set_collective_recorder(const CollectiveRecorder* recorder);

}  // namespace npugraph::npu
