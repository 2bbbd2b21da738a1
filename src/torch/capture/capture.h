// SPDX-License-Identifier: Apache-2.0
// One capture in progress: of a graph, or of what replaces a task group of one.
//
// Operators run while they are recorded, so that every result has its size and every error its line; what they wrote outside of
// the graph, and what they drew from generators, is put back at the end. Thread-safe: autograd launches from threads of its own.
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

#include "torch/capture/generator_states.h"
#include "torch/capture/recording.h"
#include "torch/capture/registry.h"

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

  // Calls `run`, the operator's kernel on the arguments at the end of `stack`, and records it as a launch in `stream`. c10::Error
  // when the host would have to read what the operator computes.
  void launch(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::Stream stream,
              c10::function_ref<void()> run);

  // Calls `run`, which is `call` with the results that it is to have from then on, and records it. `written` are tensors that it
  // writes.
  void launch(std::shared_ptr<CompiledCall> call, at::ArrayRef<at::Tensor> written, c10::Stream stream,
              c10::function_ref<void()> run);

  // Calls `run`, which begins `call` on `inputs` and `outputs`, and records it. The first operator that needs the results, or
  // whoever waits for the work before, waits at replays, too.
  void launch(std::shared_ptr<CollectiveCall> call, Tensors inputs, Tensors outputs, c10::Stream stream,
              c10::function_ref<WorkPtr()> run);
  // Records the wait for what launch() has begun, which has ended; nothing when it is recorded already.
  void await(const CollectiveCall& call);

  // Where an event that is recorded in `stream` stands; `stream` has waited for such an event.
  Progress progress(c10::Stream stream) const;
  void join(c10::Stream stream, const Progress& seen);

  void add_event(RecordedStep::Kind kind, std::shared_ptr<ExternalEvent> event);
  // What has begun ends before.
  void begin_group();
  std::shared_ptr<TaskGroup> end_group();

  // Undoes what launches wrote. RuntimeError where the capture cannot become a graph.
  Recording finish();
  // The same without a result.
  void abandon();

 private:
  RecordedStep& open_step();
  void note_launch(std::string name, c10::Stream stream);
  // What it writes of arguments, but for those of which it announces rows: the storages of these on cpu, if they are to be saved.
  std::vector<const c10::StorageImpl*> save_written(const c10::OperatorHandle& op, std::span<const c10::IValue> args);
  // Whether it saved the places of `written` that the operator writes, and no more.
  bool saved_by_places(const c10::OperatorHandle& op, std::span<const c10::IValue> args, const at::Tensor& written);
  void save_generators(std::span<const c10::IValue> args);
  // Waits for the collectives begun that `which` says.
  void await_begun(c10::function_ref<bool(const BegunCollective&)> which);
  // The same for all, in a capture that can become a graph; what that threw.
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
  std::shared_ptr<TaskGroup> group_;  // that is open
  std::vector<BegunCollective> begun_;
  std::unordered_map<c10::Stream, Progress> seen_;
  std::unordered_map<c10::Stream, Progress> noted_;                // of seen_, what launches of the stream say
  std::unordered_map<c10::Stream, std::vector<int64_t>> numbers_;  // of the launches of a stream, among all
};

}  // namespace npugraph::capture
