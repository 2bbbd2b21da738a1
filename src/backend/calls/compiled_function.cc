// SPDX-License-Identifier: Apache-2.0
#include "backend/calls/compiled_function.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include <ATen/Parallel.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/utils/object_ptr.h>

#include "backend/bridge/convert.h"
#include "backend/bridge/declared.h"
#include "backend/bridge/host_device.h"
#include "backend/bridge/run_result.h"
#include "backend/bridge/torch_host.h"
#include "base/error.h"
#include "program/call_symbols.h"
#include "runtime/observation.h"
#include "runtime/threads/worker_pool.h"

namespace npugraph::calls {
namespace {

using runtime::BoundOutput;
using runtime::RunResult;
using runtime::RunStatus;
using Clock = std::chrono::steady_clock;

thread_local std::string place_of_failure;

// The view shares the version counter of the input, because autograd may save it.
at::Tensor view_of_input(const at::Tensor& input, const BoundOutput& output) {
  at::Tensor view = bridge::window_of(input, output);
  if (!input.is_inference() && !view.is_inference()) {
    torch::autograd::impl::set_version_counter(view, torch::autograd::impl::version_counter(input));
  }
  return view;
}

PyObject* wrap_tensor(const program::Program& program, const program::Output& declared, BoundOutput& output,
                      const CallInputs& inputs, bridge::StoragePairs& on_device) {
  const program::Buffer& buffer = program.buffers[declared.tensor.buffer];
  const bool from_input = buffer.cls == program::BufferClass::kInput || buffer.cls == program::BufferClass::kParameter;
  if (from_input) {
    const auto input = static_cast<size_t>(buffer.source);
    if (buffer.opaque) return Py_NewRef(inputs.object(input));
    return THPVariable_Wrap(view_of_input(inputs.memory(input), output));
  }
  if (buffer.opaque) return THPVariable_Wrap(bridge::take_object(output));
  if (output.object != nullptr && bridge::is_absent(*static_cast<c10::TensorImpl*>(output.object)))
    return Py_NewRef(Py_None);
  at::Tensor result = bridge::result_of(output);
  if (buffer.device != Device{} && result.is_cpu()) {
    const bridge::HostDevice& device = *bridge::host_device();
    const c10::DeviceIndex index = bridge::to_torch(buffer.device).index();
    const auto make = [&](const c10::Storage& cpu) { return device.storage_over(cpu, index); };
    device.move_into(*result.unsafeGetTensorImpl(), on_device.over(result.storage(), make));
  }
  return THPVariable_Wrap(std::move(result));
}

PyObject* wrap_scalar(const BoundOutput& output) {
  switch (output.scalar_kind) {
    case ScalarKind::kInt: return PyLong_FromLongLong(output.scalar.i);
    case ScalarKind::kFloat: return PyFloat_FromDouble(output.scalar.f);
    case ScalarKind::kBool: return PyBool_FromLong(output.scalar.i != 0);
  }
  NG_CHECK(false, "scalar kind ", static_cast<int>(output.scalar_kind));
}

PyObject* wrap(const program::Program& program, const program::Output& declared, BoundOutput& output,
               const CallInputs& inputs, bridge::StoragePairs& on_device) {
  switch (declared.kind) {
    case program::Output::Kind::kTensor: return wrap_tensor(program, declared, output, inputs, on_device);
    case program::Output::Kind::kInput: return Py_NewRef(inputs.object(static_cast<size_t>(declared.input)));
    case program::Output::Kind::kScalar: return wrap_scalar(output);
    case program::Output::Kind::kNone: break;
  }
  return Py_NewRef(Py_None);
}

// A tuple with one entry per output: a new reference. No memory is copied: results are the storages that the Program
// wrote. Takes over the references that `outputs` hold, also when it throws.
PyObject* wrap_outputs(const program::Program& program, std::span<BoundOutput> outputs, const CallInputs& inputs) {
  struct DropRest {
    std::span<BoundOutput> outputs;
    ~DropRest() {
      for (BoundOutput& output : outputs) {
        if (output.object != nullptr) bridge::take_object(output);
      }
    }
  } const drop_rest{outputs};

  bridge::StoragePairs on_device;
  THPObjectPtr tuple(PyTuple_New(static_cast<Py_ssize_t>(outputs.size())));
  if (!tuple) throw python_error();
  for (size_t i = 0; i < outputs.size(); ++i) {
    PyObject* object = wrap(program, program.outputs[i], outputs[i], inputs, on_device);
    if (object == nullptr) throw python_error();
    PyTuple_SET_ITEM(tuple.get(), i, object);
  }
  return tuple.release();
}

// Whether a run may wait for something that needs the GIL: Python that it calls, or other threads of the process.
bool may_wait(const program::Program& program) {
  return std::any_of(program.tasks.begin(), program.tasks.end(), [](const program::Task& task) {
    return program::is_callable(task.kind) || task.kind == program::TaskKind::kCollective || task.foreign;
  });
}

// The first device other than cpu that the Program uses. UserError if the process has none.
std::optional<c10::DeviceIndex> device_of(const program::Program& program) {
  const auto found =
      std::ranges::find_if(program.buffers, [](const auto& buffer) { return buffer.device != Device{}; });
  if (found == program.buffers.end()) return std::nullopt;
  if (bridge::host_device() == nullptr)
    throw UserError(cat(program.name, " is for tensors of ", found->device.type,
                        ", and this process has no such device: import torch_npu first"));
  const c10::Device device = bridge::to_torch(found->device);
  return device.has_index() ? device.index() : c10::DeviceIndex{0};
}

// Gives the pool as many threads as torch would use in the calling thread.
void follow_thread_count() {
  static std::atomic<int> last = 0;
  const int threads = at::get_num_threads();
  if (last.load(std::memory_order_relaxed) == threads) return;
  last.store(threads, std::memory_order_relaxed);
  runtime::WorkerPool::instance().set_size(threads);
}

// Issues the warning, if any. Returns the results, or null if the warning became an error.
PyObject* warned(PyObject* results, const std::string& warning) {
  if (warning.empty()) return results;
  const pybind11::object kind = pybind11::module_::import("npugraph.warning_kinds").attr("NpugraphWarning");
  if (PyErr_WarnEx(kind.ptr(), warning.c_str(), 1) == 0) return results;
  Py_DECREF(results);
  return nullptr;
}

// The results in a tuple; undefined tensors for those that are none. Empty if the call has failed.
std::vector<at::Tensor> tensors_of(PyObject* wrapped) {
  std::vector<at::Tensor> results;
  for (Py_ssize_t i = 0; wrapped != nullptr && i < PyTuple_GET_SIZE(wrapped); ++i) {
    PyObject* result = PyTuple_GET_ITEM(wrapped, i);
    results.push_back(THPVariable_Check(result) ? THPVariable_Unpack(result) : at::Tensor());
  }
  return results;
}

}  // namespace

std::string take_place_of_failure() { return std::exchange(place_of_failure, {}); }

MisplacedInput::MisplacedInput(bool overlaps)
    : std::runtime_error(
          overlaps ? "a written input overlaps another input in a way that was not seen at compile time"
                   : "an input of which the graph names places lies elsewhere in its storage than at compile time"),
      overlaps_(overlaps) {}

class CompiledFunction::FrameLease {
 public:
  explicit FrameLease(CompiledFunction& call)
      : call_(call), frame_(std::move(call.spare_)), forgotten_(call.forgotten_) {
    if (frame_) return;
    frame_ = std::make_unique<Frame>();
    frame_->outputs.resize(call.program_.outputs.size());
  }
  ~FrameLease() {
    frame_->inputs.clear();
    if (forgotten_ == call_.forgotten_) call_.spare_ = std::move(frame_);
  }
  FrameLease(const FrameLease&) = delete;
  FrameLease& operator=(const FrameLease&) = delete;
  Frame& operator*() const { return *frame_; }

 private:
  CompiledFunction& call_;
  std::unique_ptr<Frame> frame_;
  const uint64_t forgotten_;
};

CompiledFunction::CompiledFunction(std::shared_ptr<runtime::Executable> executable, Arguments arguments,
                                   std::unique_ptr<InputTemplate> inputs, std::string label)
    : executable_(std::move(executable)),
      program_(runtime::Observation(*executable_).program()),
      arguments_(arguments),
      inputs_(std::move(inputs)),
      label_(std::move(label)),
      device_(device_of(program_)),
      gil_(may_wait(program_)) {
  const bool frozen_parameter = runtime::Observation(*executable_).rules().frozen_parameter;
  for (size_t i = 0; i < program_.inputs.size(); ++i) {
    specs_.emplace_back(program_, program_.inputs[i], i, frozen_parameter);
    if (specs_.back().mutated) written_.push_back(i);
  }
}

runtime::BoundInputs CompiledFunction::bound(const Frame& frame) const {
  runtime::BoundInputs inputs = frame.inputs.bound();
  if (device_) inputs.stream = bridge::host_device()->calling_stream(*device_);
  return inputs;
}

RunResult CompiledFunction::run_executable(Frame& frame) {
  follow_thread_count();
  const GilPolicy::Run policy = gil_.next();
  const auto begin = policy.timed ? Clock::now() : Clock::time_point();
  Clock::duration took{};
  RunResult result;
  {
    std::optional<pybind11::gil_scoped_release> no_gil;
    if (policy.releases) no_gil.emplace();
    const bridge::DeviceWork work(device_.has_value());
    runtime::BoundInputs inputs = bound(frame);
    if (arguments_ == Arguments::kBoxed) {
      inputs.caller = &frame;
      inputs.done_with = [](void* caller, size_t input) { static_cast<Frame*>(caller)->inputs.free_memory(input); };
    }
    result = executable_->run(inputs, frame.outputs, frame.dims);
    if (policy.timed) took = Clock::now() - begin;
  }
  if (policy.timed) gil_.note(took);
  return result;
}

void CompiledFunction::fail(const RunResult& result) const {
  place_of_failure.clear();
  if (result.task) place_of_failure = cat("in ", program::place_of(program_.tasks[*result.task]));
  try {
    bridge::rethrow(result.error);
  } catch (const std::exception& error) {
    if (device_) bridge::host_device()->check_memory(error, *device_);
    throw;
  }
}

void CompiledFunction::look_at(std::span<PyObject* const> inputs) {
  const auto index = static_cast<size_t>(watched_index_);
  PyObject* object = index < inputs.size() ? inputs[index] : nullptr;
  if (object == watched_) return;
  watched_ = object;
  pybind11::list list;
  for (PyObject* input : inputs) list.append(pybind11::handle(input));
  const pybind11::object hook = hook_;  // it may set another one
  hook(list);
}

PyObject* CompiledFunction::run(PyObject* const* arguments, size_t positional, PyObject* names) {
  const runtime::Range range(bridge::TorchHost::instance(), label_.empty() ? nullptr : label_.c_str());
  const FrameLease lease(*this);
  take(arguments, positional, names, *lease);
  return run_taken(*lease);
}

double CompiledFunction::time_tasks(int64_t times, PyObject* const* arguments, size_t positional, PyObject* names) {
  const FrameLease lease(*this);
  take(arguments, positional, names, *lease);
  follow_thread_count();
  const pybind11::gil_scoped_release no_gil;
  return runtime::time_tasks(*executable_, bound(*lease), times);
}

void CompiledFunction::take(PyObject* const* arguments, size_t positional, PyObject* names, Frame& frame) {
  if (inputs_) return take_named({arguments, positional}, arguments + positional, names, frame);
  if (names != nullptr) throw pybind11::type_error("a graph takes no keyword arguments");
  if (arguments_ == Arguments::kBoxed) {
    if (positional != 1) throw pybind11::type_error("a graph takes one positional argument, the list of its inputs");
    return take_boxed(arguments[0], frame);
  }
  if (hook_) look_at({arguments, positional});
  frame.inputs.take({arguments, positional}, specs_);
}

void CompiledFunction::take_named(std::span<PyObject* const> positional, PyObject* const* named, PyObject* names,
                                  Frame& frame) {
  const auto release = [](InputTemplate* inputs) { inputs->release(); };
  const std::unique_ptr<InputTemplate, decltype(release)> found(inputs_.get(), release);
  frame.inputs.take(found->find(positional, named, names), specs_);
}

void CompiledFunction::take_boxed(PyObject* list, Frame& frame) {
  if (!PyList_Check(list))
    throw UserError(cat("a graph takes one list of inputs and was given a ", Py_TYPE(list)->tp_name));
  if (hook_) look_at({PySequence_Fast_ITEMS(list), static_cast<size_t>(PyList_GET_SIZE(list))});
  frame.inputs.take_out_of(list, specs_);
}

bridge::GraphCall CompiledFunction::graph_call(const Frame& frame) const {
  bridge::GraphCall call{executable_, bound(frame), std::vector<at::Tensor>(specs_.size()), {}};
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (!specs_[i].is_scalar) call.tensors[i] = frame.inputs.memory(i);
    if (specs_[i].mutated) call.written.push_back(call.tensors[i]);
  }
  return call;
}

// Runs as a part of the graph that is being captured, if there is one. Returns whether it has run.
bool CompiledFunction::run_captured(const bridge::HostDevice& device, Frame& frame, PyObject*& wrapped) {
  const auto is_of_device = [](const InputSpec& spec) { return spec.device.type() == c10::DeviceType::PrivateUse1; };
  const auto first = std::ranges::find_if(specs_, is_of_device);
  const auto index = first == specs_.end() ? std::nullopt : std::make_optional(first->device.index());
  const auto run_now = [&] {
    wrapped = run_alone(frame);
    return tensors_of(wrapped);
  };
  return device.record(index, [&] { return graph_call(frame); }, run_now);
}

PyObject* CompiledFunction::run_taken(Frame& frame) {
  const bridge::HostDevice* device = bridge::host_device();
  PyObject* wrapped = nullptr;
  if (device != nullptr && device->is_watching() && run_captured(*device, frame, wrapped)) [[unlikely]]
    return wrapped;
  return run_alone(frame);
}

PyObject* CompiledFunction::run_alone(Frame& frame) {
  const RunResult result = run_executable(frame);
  switch (result.status) {
    case RunStatus::kOk:
      if (arguments_ != Arguments::kBoxed) count_writes(frame.inputs);
      return warned(wrap_outputs(program_, frame.outputs, frame.inputs), result.warning);
    case RunStatus::kInputsOverlap: return misplaced(true, frame.inputs);
    case RunStatus::kInputElsewhere: return misplaced(false, frame.inputs);
    case RunStatus::kInputRefused: throw UserError(result.error);
    case RunStatus::kTaskFailed: break;
  }
  fail(result);
}

// Called for misplaced inputs, when nothing has run.
PyObject* CompiledFunction::misplaced(bool overlaps, const CallInputs& inputs) const {
  if (!fallback_) throw MisplacedInput(overlaps);
  const pybind11::str reason(overlaps ? "overlapping_inputs" : "shifted_inputs");
  std::vector<PyObject*> arguments = {reason.ptr()};
  arguments.insert(arguments.end(), inputs.objects().begin(), inputs.objects().end());
  return PyObject_Vectorcall(fallback_.ptr(), arguments.data(), arguments.size(), nullptr);
}

// Bumps the version counters of written inputs, so that autograd notices writes to tensors that it saved. The counters
// are usually not cached. They are read first because the cache misses of plain reads overlap, and those of atomic
// additions do not.
void CompiledFunction::count_writes(const CallInputs& inputs) const {
  uint32_t fetched = 0;
  for (const size_t index : written_) {
    const at::Tensor& tensor = THPVariable_Unpack(inputs.object(index));
    if (!tensor.is_inference()) fetched += tensor.unsafeGetTensorImpl()->version_counter().current_version();
  }
  asm volatile("" : : "r"(fetched));
  for (const size_t index : written_) {
    const at::Tensor& tensor = THPVariable_Unpack(inputs.object(index));
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

int CompiledFunction::traverse(visitproc visit, void* arg) const {
  Py_VISIT(hook_.ptr());
  Py_VISIT(fallback_.ptr());
  return inputs_ ? inputs_->traverse(visit, arg) : 0;
}

void CompiledFunction::watch(Py_ssize_t index, pybind11::object hook) {
  watched_index_ = index;
  watched_ = nullptr;
  hook_ = std::move(hook);
}

void CompiledFunction::forget() {
  spare_.reset();
  ++forgotten_;
}

}  // namespace npugraph::calls
