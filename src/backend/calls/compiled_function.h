// SPDX-License-Identifier: Apache-2.0
// An Executable as a function of Python objects: takes arguments, runs, and wraps results. It decides whether a run
// keeps the GIL, follows torch's number of threads, becomes part of a graph that is captured on the calling stream, and
// counts writes to inputs as autograd does. bindings/callable.h has the Python type around it.
// Used under the GIL. Calls may overlap, since a run may release the GIL: each has a Frame of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/csrc/utils/pybind.h>

#include "backend/bridge/host_device.h"
#include "backend/calls/call_inputs.h"
#include "backend/calls/input_template.h"
#include "runtime/executable.h"

namespace npugraph::calls {

// Whether a run releases the GIL. A run below 20 microseconds keeps it: releasing and reacquiring the GIL costs as much
// as the shortest tasks, and a thread that takes it in between delays the run by a switch interval. Used under the GIL.
class GilPolicy {
 public:
  static constexpr std::chrono::microseconds kShortRun{20};
  // One in so many of the runs that keep the GIL is timed.
  static constexpr uint32_t kTimedEvery = 64;

  // `may_wait`: a run may wait for something that needs the GIL, so every run releases it.
  explicit GilPolicy(bool may_wait) : may_wait_(may_wait) {}

  struct Run {
    bool releases = true;
    bool timed = true;  // note() is to be called with the time that the run took
  };
  Run next() {
    const bool releases = long_ || may_wait_;
    return {.releases = releases, .timed = releases || ++kept_ % kTimedEvery == 0};
  }
  void note(std::chrono::nanoseconds took) { long_ = took > kShortRun; }

 private:
  const bool may_wait_;
  bool long_ = true;  // whether the last timed run was long; true before the first one
  uint32_t kept_ = 0;
};

// How a function takes the inputs of its Program: in one list, which it empties; one by one; or inside of other
// arguments (input_template.h).
enum class Arguments : uint8_t { kBoxed, kPositional, kNamed };

// Inputs overlap or have the wrong storage offset. Nothing has run.
class MisplacedInput : public std::runtime_error {
 public:
  // `overlaps`: a written input overlaps another one; otherwise an input lies elsewhere in its storage.
  explicit MisplacedInput(bool overlaps);
  bool overlaps() const { return overlaps_; }

 private:
  bool overlaps_;
};

class CompiledFunction {
 public:
  // Only kNamed has `inputs`, and a `label` that names its calls for profilers (empty: no name).
  CompiledFunction(std::shared_ptr<runtime::Executable> executable, Arguments arguments,
                   std::unique_ptr<InputTemplate> inputs, std::string label);

  // Returns a new reference to the tuple of the outputs, or null with a Python exception set. Takes the arguments of a
  // vectorcall. UserError names an input that does not fit the Program. MisplacedInput, unless there is a fallback.
  // Exceptions of operators pass through.
  PyObject* run(PyObject* const* arguments, size_t positional, PyObject* names);
  // Returns the nanoseconds that the tasks alone take in such a call: the mean of `times` runs.
  double time_tasks(int64_t times, PyObject* const* arguments, size_t positional, PyObject* names);
  // From the next call on, `hook` gets a list of the inputs at the start of each call whose input `index` is not the
  // same object as in the previous call.
  void watch(Py_ssize_t index, pybind11::object hook);
  // `fallback(reason, *inputs)` is called instead of throwing MisplacedInput.
  void fall_back_on(pybind11::object fallback) { fallback_ = std::move(fallback); }
  // Forgets the addresses of inputs, also those of frozen parameters.
  void forget();
  const std::string& name() const { return program_.name; }
  int traverse(visitproc visit, void* arg) const;

 private:
  // The state of a running call; overlapping calls have one each.
  struct Frame {
    CallInputs inputs;
    std::vector<runtime::BoundOutput> outputs;
    std::vector<int64_t> dims;  // of the outputs
  };
  class FrameLease;

  void look_at(std::span<PyObject* const> inputs);
  void take(PyObject* const* arguments, size_t positional, PyObject* names, Frame& frame);
  void take_named(std::span<PyObject* const> positional, PyObject* const* named, PyObject* names, Frame& frame);
  void take_boxed(PyObject* list, Frame& frame);
  PyObject* run_taken(Frame& frame);
  PyObject* run_alone(Frame& frame);
  bool run_captured(const bridge::HostDevice& device, Frame& frame, PyObject*& wrapped);
  bridge::GraphCall graph_call(const Frame& frame) const;
  PyObject* misplaced(bool overlaps, const CallInputs& inputs) const;
  void count_writes(const CallInputs& inputs) const;
  runtime::BoundInputs bound(const Frame& frame) const;
  runtime::RunResult run_executable(Frame& frame);
  [[noreturn]] void fail(const runtime::RunResult& result) const;

  std::shared_ptr<runtime::Executable> executable_;
  const program::Program& program_;
  const Arguments arguments_;
  const std::unique_ptr<InputTemplate> inputs_;  // kNamed only
  const std::string label_;
  std::vector<InputSpec> specs_;
  std::vector<size_t> written_;  // indices of the inputs that the Program writes
  std::unique_ptr<Frame> spare_;
  pybind11::object hook_;
  pybind11::object fallback_;
  Py_ssize_t watched_index_ = 0;
  PyObject* watched_ = nullptr;                   // borrowed, only compared
  const std::optional<c10::DeviceIndex> device_;  // on whose streams it is called
  GilPolicy gil_;
  uint64_t forgotten_ = 0;  // number of calls of forget()
};

// Returns and clears the place where the last run of this thread failed, "in aten.mm (model.py:12 in forward)".
std::string take_place_of_failure();

}  // namespace npugraph::calls
