// SPDX-License-Identifier: Apache-2.0
// One capture in progress: of a graph, or of the replacement of a task group of a graph.
//
// Operators run while they are recorded, so that every result has its size and every error its source line.
// At the end, memory that they wrote outside of the graph and states of generators are restored.
// Thread-safe: autograd launches from threads of its own.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include <ATen/core/stack.h>
#include <c10/core/Stream.h>
#include <c10/util/FunctionRef.h>

#include "device/capture/generator_states.h"
#include "device/capture/recording.h"
#include "device/capture/registry.h"

namespace npugraph::capture {

enum class Purpose : uint8_t { kGraph, kUpdate };

class Capture {
 public:
  Capture(c10::Stream origin, ErrorMode mode, Purpose purpose);

  c10::Stream origin() const { return origin_; }
  ErrorMode mode() const { return mode_; }
  Purpose purpose() const { return purpose_; }
  std::thread::id thread() const { return thread_; }
  GeneratorStates& generators() { return generators_; }

  // Calls `run`, the operator's kernel on the arguments at the end of `stack`, and records it as a launch in `stream`.
  // c10::Error if the host would have to read a result of the operator.
  void launch(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::Stream stream,
              c10::function_ref<void()> run);

  // Calls `run`, which runs the Program of `call` for the first time, and records the
  // call. `written` are the inputs that it writes.
  void launch(std::shared_ptr<CompiledCall> call, at::ArrayRef<at::Tensor> written, c10::Stream stream,
              c10::function_ref<void()> run);

  // Calls `run`, which begins `call` on `inputs` and `outputs`, and records it. The wait for it is recorded before the
  // first operator that needs the results, or earlier, if something waits for the work earlier.
  void launch(std::shared_ptr<CollectiveCall> call, Tensors inputs, Tensors outputs, c10::Stream stream,
              c10::function_ref<WorkPtr()> run);
  // Records the wait for a collective of launch() that has ended. Does nothing if the wait is recorded already.
  void await(const CollectiveCall& call);

  // progress(): the launches that an event comes after when it is recorded in `stream`. join(): notes that `stream` has
  // waited for such an event.
  Progress progress(c10::Stream stream) const;
  void join(c10::Stream stream, const Progress& seen);

  void add_event(RecordedStep::Kind kind, std::shared_ptr<ExternalEvent> event);
  // Waits for the begun collectives first.
  void begin_group();
  std::shared_ptr<TaskGroup> end_group();

  // Restores what launches wrote. RuntimeError if the capture cannot become a graph.
  Recording finish();
  // Restores what launches wrote, and drops the recording.
  void abandon();

 private:
  RecordedStep& open_step();
  void describe(const c10::OperatorHandle& op, std::span<const c10::IValue> args, std::span<const c10::IValue> results,
                c10::Stream stream);
  // Makes steps of the direct calls, because a launch is no such call.
  void describe_direct_calls();
  void note_launch(std::string name, c10::Stream stream);
  // Saves the arguments that the operator writes, except those for which it announces the written rows. Returns the cpu
  // storages of the latter, as far as they must be saved.
  std::vector<const c10::StorageImpl*> save_written(const c10::OperatorHandle& op, std::span<const c10::IValue> args);
  // Saves only the places of `written` that the operator writes. Returns
  // false, and saves nothing, if they are not known.
  bool saved_by_places(const c10::OperatorHandle& op, std::span<const c10::IValue> args, const at::Tensor& written);
  void save_generators(std::span<const c10::IValue> args);
  // Waits for the begun collectives for which `which` is true.
  void await_begun(c10::function_ref<bool(const BegunCollective&)> which);
  // Waits for all of them, unless a task group is open. Returns the exception of the wait, or null.
  std::exception_ptr end_begun();
  void undo();
  void check_joined() const;

  const c10::Stream origin_;
  const ErrorMode mode_;
  const Purpose purpose_;
  const std::thread::id thread_ = std::this_thread::get_id();
  GeneratorStates generators_;

  mutable std::mutex mutex_;  // guards what follows
  Recording recording_;
  bool is_direct_;                    // all launches so far are direct calls
  std::shared_ptr<TaskGroup> group_;  // the open one, or null
  std::vector<BegunCollective> begun_;
  std::unordered_map<c10::Stream, Progress> seen_;
  std::unordered_map<c10::Stream, Progress> noted_;  // of seen_, what launches of the stream list as waits
  std::unordered_map<c10::Stream, std::vector<int64_t>> numbers_;  // indices of a stream's launches among all launches
};

}  // namespace npugraph::capture
