// SPDX-License-Identifier: Apache-2.0
#include "torch/bindings/callable.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <structmember.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/object_ptr.h>

#include "base/error.h"
#include "runtime/worker_pool.h"
#include "torch/bindings/call_inputs.h"
#include "torch/bindings/call_outputs.h"
#include "torch/bindings/torch_counters.h"
#include "torch/bridge/aten_task.h"
#include "torch/bridge/convert.h"
#include "torch/bridge/run_result.h"
#include "torch/bridge/torch_host.h"
#include "torch/bridge/torch_team.h"
#include "torch/capture/capture.h"
#include "torch/capture/compiled_call.h"
#include "torch/device/core_limits.h"
#include "torch/device/streams.h"
#include "torch/npu/facts.h"
#include "torch/npu/host_limit.h"
#include "torch/npu/memory.h"

namespace npugraph::bindings {

namespace {

using runtime::RunResult;
using runtime::RunStatus;
using Clock = std::chrono::steady_clock;

PyObject* inputs_overlap_error = nullptr;
PyObject* input_elsewhere_error = nullptr;
PyTypeObject* callable_type = nullptr;

// Where the last run of this thread failed: "in aten.mm (model.py:12 in forward)".
thread_local std::string place_of_failure;

// Below this length a run keeps the GIL: giving it away and taking it back costs as much as the shortest tasks, and a thread
// that takes it in between holds us up for a switch interval.
constexpr std::chrono::microseconds kShortRun(20);
// Of runs that keep the GIL, one in so many is timed.
constexpr uint32_t kTimedEvery = 64;

// Others may need the GIL for what a run waits for: Python that it calls, and other threads of the process.
bool may_wait(const program::Program& program) {
  return std::any_of(program.tasks.begin(), program.tasks.end(), [](const program::Task& task) {
    return program::is_callable(task.kind) || task.kind == program::TaskKind::kCollective ||
           (task.kind == program::TaskKind::kAten && bridge::is_foreign(task.name));
  });
}

// The first npu that the Program works on, of those that the process has.
std::optional<c10::DeviceIndex> npu_of(const program::Program& program) {
  for (const program::Buffer& buffer : program.buffers) {
    if (buffer.device == Device{}) continue;
    const c10::Device device = bridge::to_torch(buffer.device);
    const c10::DeviceIndex index = device.has_index() ? device.index() : c10::DeviceIndex{0};
    if (device.type() == npu::kNpu && index < npu::facts().devices) return index;
  }
  return std::nullopt;
}

// Everything behind a Callable. Used under the GIL, except for `executable`.
class Call {
 public:
  Call(std::shared_ptr<runtime::Executable> executable, Arguments arguments, std::unique_ptr<InputTemplate> inputs,
       std::string label);

  // A new reference. Vectorcall's arguments.
  PyObject* run(PyObject* const* arguments, size_t positional, PyObject* names);
  // Nanoseconds of the tasks of such a call alone, the mean of `times` runs.
  double time_tasks(int64_t times, PyObject* const* arguments, size_t positional, PyObject* names);
  // From the next call on, `hook` gets a list of the inputs at the start of a call whenever input `index` is not the object that
  // it was in the call before.
  void watch(Py_ssize_t index, pybind11::object hook) {
    watched_index_ = index;
    watched_ = nullptr;
    hook_ = std::move(hook);
  }
  // Where inputs lie in memory as they must not, `fallback(reason, *inputs)` is called instead of raising.
  void fall_back_on(pybind11::object fallback) { fallback_ = std::move(fallback); }
  // Forgets where inputs were, also those that stay where they were first found.
  void forget() {
    spare_.reset();
    ++forgotten_;
  }
  const std::string& name() const { return program_.name; }
  int traverse(visitproc visit, void* arg) const;

 private:
  // What a call needs while it runs; calls that overlap have one each.
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
  PyObject* run_captured(Frame& frame, capture::Capture& capture, c10::Stream stream);
  PyObject* misplaced(RunStatus status, const CallInputs& inputs) const;
  void count_writes(const CallInputs& inputs) const;
  runtime::BoundInputs bound(const Frame& frame) const;
  RunResult run_executable(Frame& frame);
  [[noreturn]] void fail(const RunResult& result) const;

  std::shared_ptr<runtime::Executable> executable_;
  const program::Program& program_;
  const Arguments arguments_;
  const std::unique_ptr<InputTemplate> inputs_;  // of named arguments
  const std::string label_;                      // of calls, for profilers; empty: none
  std::vector<InputSpec> specs_;
  std::vector<size_t> written_;  // inputs
  std::unique_ptr<Frame> spare_;
  pybind11::object hook_;
  pybind11::object fallback_;
  Py_ssize_t watched_index_ = 0;
  PyObject* watched_ = nullptr;                // borrowed, only compared
  const std::optional<c10::DeviceIndex> npu_;  // on whose streams it is called
  const bool may_wait_;
  bool long_run_ = true;  // until one was timed
  uint32_t calls_ = 0;
  uint64_t forgotten_ = 0;  // how often
};

class Call::FrameLease {
 public:
  explicit FrameLease(Call& call) : call_(call), frame_(std::move(call.spare_)), forgotten_(call.forgotten_) {
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
  Call& call_;
  std::unique_ptr<Frame> frame_;
  const uint64_t forgotten_;
};

Call::Call(std::shared_ptr<runtime::Executable> executable, Arguments arguments, std::unique_ptr<InputTemplate> inputs,
           std::string label)
    : executable_(std::move(executable)),
      program_(executable_->program()),
      arguments_(arguments),
      inputs_(std::move(inputs)),
      label_(std::move(label)),
      npu_(npu_of(program_)),
      may_wait_(may_wait(program_)) {
  for (size_t i = 0; i < program_.inputs.size(); ++i) {
    specs_.emplace_back(program_, program_.inputs[i], i, executable_->rules().frozen_parameter);
    if (specs_.back().mutated) written_.push_back(i);
  }
}

runtime::BoundInputs Call::bound(const Frame& frame) const {
  runtime::BoundInputs inputs = frame.inputs.bound();
  if (!npu_) return inputs;
  const c10::Stream stream = device::current_stream(*npu_);
  inputs.stream = {.id = stream.id(), .device = stream.device_index(), .limits = device::limits_in_force(stream)};
  return inputs;
}

// The pool has as many threads as torch would use in the calling thread.
void follow_thread_count() {
  static std::atomic<int> last = 0;
  const int threads = at::get_num_threads();
  if (last.load(std::memory_order_relaxed) == threads) return;
  last.store(threads, std::memory_order_relaxed);
  runtime::WorkerPool::instance().set_size(threads);
}

RunResult Call::run_executable(Frame& frame) {
  follow_thread_count();
  const bool release_gil = long_run_ || may_wait_;
  const bool timed = release_gil || ++calls_ % kTimedEvery == 0;
  const auto begin = timed ? Clock::now() : Clock::time_point();
  bool was_long = long_run_;
  RunResult result;
  {
    std::optional<pybind11::gil_scoped_release> no_gil;
    if (release_gil) no_gil.emplace();
    std::optional<npu::AllocatesForDevice> for_device;
    if (npu_) for_device.emplace();
    result = executable_->run(bound(frame), frame.outputs, frame.dims);
    if (timed) was_long = Clock::now() - begin > kShortRun;
  }
  long_run_ = was_long;
  return result;
}

void Call::fail(const RunResult& result) const {
  place_of_failure.clear();
  if (result.task != program::kNone) place_of_failure = cat("in ", bridge::place_of(program_.tasks[result.task]));
  try {
    bridge::rethrow(result.error);
  } catch (const std::exception& error) {
    const auto refused = npu_ ? npu::refused_by_host(error.what()) : std::nullopt;
    if (!refused) throw;
    npu::DeviceMemory::of(*npu_).fail_on_host(*refused, *npu_);
  }
}

void Call::look_at(std::span<PyObject* const> inputs) {
  const auto index = static_cast<size_t>(watched_index_);
  PyObject* object = index < inputs.size() ? inputs[index] : nullptr;
  if (object == watched_) return;
  watched_ = object;
  pybind11::list list;
  for (PyObject* input : inputs) list.append(pybind11::handle(input));
  const pybind11::object hook = hook_;  // it may set another one
  hook(list);
}

PyObject* Call::run(PyObject* const* arguments, size_t positional, PyObject* names) {
  ensure_counters();
  const runtime::Range range(bridge::TorchHost::instance(), label_.empty() ? nullptr : label_.c_str());
  const FrameLease lease(*this);
  take(arguments, positional, names, *lease);
  return run_taken(*lease);
}

double Call::time_tasks(int64_t times, PyObject* const* arguments, size_t positional, PyObject* names) {
  const FrameLease lease(*this);
  take(arguments, positional, names, *lease);
  follow_thread_count();
  const pybind11::gil_scoped_release no_gil;
  return executable_->time_tasks(bound(*lease), times);
}

void Call::take(PyObject* const* arguments, size_t positional, PyObject* names, Frame& frame) {
  if (inputs_) return take_named({arguments, positional}, arguments + positional, names, frame);
  if (names != nullptr) throw pybind11::type_error("a graph takes no keyword arguments");
  if (arguments_ == Arguments::kBoxed) {
    if (positional != 1) throw pybind11::type_error("a graph takes one positional argument, the list of its inputs");
    return take_boxed(arguments[0], frame);
  }
  if (hook_) look_at({arguments, positional});
  frame.inputs.take({arguments, positional}, specs_);
}

void Call::take_named(std::span<PyObject* const> positional, PyObject* const* named, PyObject* names, Frame& frame) {
  const auto release = [](InputTemplate* inputs) { inputs->release(); };
  const std::unique_ptr<InputTemplate, decltype(release)> found(inputs_.get(), release);
  frame.inputs.take(found->find(positional, named, names), specs_);
}

void Call::take_boxed(PyObject* list, Frame& frame) {
  if (!PyList_Check(list))
    throw UserError(cat("a graph takes one list of inputs and was given a ", Py_TYPE(list)->tp_name));
  if (hook_) look_at({PySequence_Fast_ITEMS(list), static_cast<size_t>(PyList_GET_SIZE(list))});
  frame.inputs.take_out_of(list, specs_);
}

// In a stream that is being captured the run becomes part of that graph.
PyObject* Call::run_captured(Frame& frame, capture::Capture& capture, c10::Stream stream) {
  std::vector<at::Tensor> tensors(specs_.size()), written, results;
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (!specs_[i].is_scalar) tensors[i] = frame.inputs.memory(i);
    if (specs_[i].mutated) written.push_back(tensors[i]);
  }
  const auto call = std::make_shared<capture::CompiledCall>(executable_, bound(frame), std::move(tensors));
  PyObject* wrapped = nullptr;
  capture.launch(call, written, stream, [&] { wrapped = run_taken(frame); });
  for (Py_ssize_t i = 0; wrapped != nullptr && i < PyTuple_GET_SIZE(wrapped); ++i) {
    PyObject* result = PyTuple_GET_ITEM(wrapped, i);
    results.push_back(THPVariable_Check(result) ? THPVariable_Unpack(result) : at::Tensor());
  }
  call->set_results(std::move(results));
  return wrapped;
}

// The results, unless the warning became an error.
PyObject* warned(PyObject* results, const std::string& warning) {
  if (warning.empty()) return results;
  const pybind11::object kind = pybind11::module_::import("npugraph.warning_kinds").attr("NpugraphWarning");
  if (PyErr_WarnEx(kind.ptr(), warning.c_str(), 1) == 0) return results;
  Py_DECREF(results);
  return nullptr;
}

PyObject* Call::run_taken(Frame& frame) {
  if (capture::is_watching()) [[unlikely]] {
    const auto on_npu = std::ranges::find(specs_, npu::kNpu, [](const InputSpec& spec) { return spec.device.type(); });
    const c10::Stream stream =
        device::current_stream(on_npu == specs_.end() ? npu::current_device() : on_npu->device.index());
    if (const auto capture = capture::recorder_of(stream)) return run_captured(frame, *capture, stream);
  }
  const RunResult result = run_executable(frame);
  switch (result.status) {
    case RunStatus::kOk:
      if (arguments_ != Arguments::kBoxed) count_writes(frame.inputs);
      return warned(wrap_outputs(program_, frame.outputs, frame.inputs), result.warning);
    case RunStatus::kInputsOverlap:
    case RunStatus::kInputElsewhere: return misplaced(result.status, frame.inputs);
    case RunStatus::kInputRefused: throw UserError(result.error);
    case RunStatus::kTaskFailed: break;
  }
  fail(result);
}

// Nothing has run.
PyObject* Call::misplaced(RunStatus status, const CallInputs& inputs) const {
  const bool overlap = status == RunStatus::kInputsOverlap;
  if (fallback_) {
    const pybind11::str reason(overlap ? "overlapping_inputs" : "shifted_inputs");
    std::vector<PyObject*> arguments = {reason.ptr()};
    arguments.insert(arguments.end(), inputs.objects().begin(), inputs.objects().end());
    return PyObject_Vectorcall(fallback_.ptr(), arguments.data(), arguments.size(), nullptr);
  }
  if (overlap) {
    PyErr_SetString(inputs_overlap_error,
                    "a written input overlaps another input in a way that was not seen at compile time");
  } else {
    PyErr_SetString(input_elsewhere_error,
                    "an input of which the graph names places lies elsewhere in its storage than at compile time");
  }
  return nullptr;
}

// As autograd counts them, so that it notices when what it saved was written. The counters are in no cache: reads of several wait
// for memory together, and atomic additions, which would not, find them in one.
void Call::count_writes(const CallInputs& inputs) const {
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

int Call::traverse(visitproc visit, void* arg) const {
  Py_VISIT(hook_.ptr());
  Py_VISIT(fallback_.ptr());
  return inputs_ ? inputs_->traverse(visit, arg) : 0;
}

struct CallableObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* weak_references;
  PyObject* attributes;
  Call* call;
};

// What `use` of the call gives; what it throws becomes Python's. A callable may drop the last reference to itself.
template <typename Use>
PyObject* with_call(PyObject* self, const Use& use) {
  HANDLE_TH_ERRORS
  try {
    const THPObjectPtr keep(Py_NewRef(self));
    return use(*reinterpret_cast<CallableObject*>(self)->call);
  } catch (const UserError& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
    return nullptr;
  } catch (const pybind11::builtin_exception& error) {
    error.set_error();
    return nullptr;
  }
  END_HANDLE_TH_ERRORS
}

// Hands the exception that is set to npugraph.error_notes, unless it is one that our own callers wait for.
void note_error(PyObject* self) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const std::string place = std::exchange(place_of_failure, {});
  const bool is_ours = PyErr_GivenExceptionMatches(type, inputs_overlap_error) != 0 ||
                       PyErr_GivenExceptionMatches(type, input_elsewhere_error) != 0;
  if (!is_ours && PyErr_GivenExceptionMatches(type, PyExc_Exception) != 0) {
    PyErr_NormalizeException(&type, &value, &traceback);
    try {
      const std::string& name = reinterpret_cast<CallableObject*>(self)->call->name();
      pybind11::module_::import("npugraph.error_notes").attr("add_note")(pybind11::handle(value), name, place);
    } catch (pybind11::error_already_set& error) {
      error.discard_as_unraisable("npugraph's note of an error");
    }
  }
  PyErr_Restore(type, value, traceback);
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  const THPObjectPtr keep(Py_NewRef(self));
  PyObject* result = with_call(self, [&](Call& call) { return call.run(args, PyVectorcall_NARGS(flags), names); });
  if (result == nullptr) [[unlikely]]
    note_error(self);
  return result;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<CallableObject*>(self)->attributes);
  return reinterpret_cast<CallableObject*>(self)->call->traverse(visit, arg);
}

int clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<CallableObject*>(self)->attributes);
  reinterpret_cast<CallableObject*>(self)->call->watch(0, {});
  reinterpret_cast<CallableObject*>(self)->call->fall_back_on({});
  return 0;
}

void dealloc(PyObject* self) {
  auto* object = reinterpret_cast<CallableObject*>(self);
  PyObject_GC_UnTrack(self);
  if (object->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  clear(self);
  delete object->call;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* time_tasks(PyObject* self, PyObject* const* args, Py_ssize_t positional, PyObject* names) {
  const long long times = positional > 0 ? PyLong_AsLongLong(args[0]) : 0;
  if (PyErr_Occurred() != nullptr) return nullptr;
  return with_call(self, [&](Call& call) {
    if (times <= 0) throw UserError(cat("the number of runs is at least 1, got ", times));
    return PyFloat_FromDouble(call.time_tasks(times, args + 1, static_cast<size_t>(positional - 1), names));
  });
}

PyObject* watch(PyObject* self, PyObject* args) {
  Py_ssize_t index = 0;
  PyObject* hook = nullptr;
  if (PyArg_ParseTuple(args, "nO", &index, &hook) == 0) return nullptr;
  if (index < 0) {
    PyErr_SetString(PyExc_ValueError, "the index of an input is not negative");
    return nullptr;
  }
  reinterpret_cast<CallableObject*>(self)->call->watch(index, pybind11::reinterpret_borrow<pybind11::object>(hook));
  return Py_NewRef(Py_None);
}

PyObject* fall_back_on(PyObject* self, PyObject* fallback) {
  reinterpret_cast<CallableObject*>(self)->call->fall_back_on(pybind11::reinterpret_borrow<pybind11::object>(fallback));
  return Py_NewRef(Py_None);
}

PyObject* forget(PyObject* self, PyObject*) {
  reinterpret_cast<CallableObject*>(self)->call->forget();
  return Py_NewRef(Py_None);
}

PyObject* repr(PyObject* self) {
  return PyUnicode_FromString(
      cat("<npugraph.Callable of ", reinterpret_cast<CallableObject*>(self)->call->name(), ">").c_str());
}

PyMethodDef methods[] = {
    {"time_tasks", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(time_tasks)), METH_FASTCALL | METH_KEYWORDS,
     "time_tasks(times, *args, **kwargs)\n\nNanoseconds of the tasks of such a call alone, the mean of `times` runs. "
     "Each of them writes what a call writes."},
    {"watch", watch, METH_VARARGS,
     "watch(index, hook)\n\nCalls hook(args) at the start of each call whose input `index` is another "
     "object than in the call before."},
    {"fall_back_on", fall_back_on, METH_O,
     "fall_back_on(function)\n\nCalls function(reason, *inputs) where inputs lie in memory as they must not."},
    {"forget", forget, METH_NOARGS,
     "forget()\n\nForgets where inputs were, also parameters that stay where they were first found."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CallableObject, vectorcall), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CallableObject, weak_references), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(CallableObject, attributes), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef properties[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_repr, reinterpret_cast<void*>(repr)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {Py_tp_doc,
     const_cast<char*>(
         "Runs a compiled graph: boxed, f([inputs]), which empties the list; positional, f(*inputs); or "
         "with the arguments in which it finds its inputs. Gives the tuple of its outputs. Takes attributes.")},
    {0, nullptr}};

PyType_Spec spec = {
    "npugraph._C.Callable", sizeof(CallableObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

PyObject* make_callable(std::shared_ptr<runtime::Executable> executable, Arguments arguments,
                        std::unique_ptr<InputTemplate> inputs, std::string label) {
  auto call = std::make_unique<Call>(std::move(executable), arguments, std::move(inputs), std::move(label));
  auto* object = PyObject_GC_New(CallableObject, callable_type);
  if (object == nullptr) throw pybind11::error_already_set();
  object->vectorcall = vectorcall;
  object->weak_references = nullptr;
  object->attributes = nullptr;
  object->call = call.release();
  auto* made = reinterpret_cast<PyObject*>(object);
  PyObject_GC_Track(made);
  PyObject* boxed = arguments == Arguments::kBoxed ? Py_True : Py_False;
  if (PyObject_SetAttrString(made, "_boxed_call", boxed) != 0) {
    Py_DECREF(made);
    throw pybind11::error_already_set();
  }
  return made;
}

void init_callable(pybind11::module_& module) {
  runtime::WorkerPool::instance().set_team(bridge::torch_team());
  inputs_overlap_error =
      PyErr_NewExceptionWithDoc("npugraph._C.InputsOverlap", "A written input overlaps another one; nothing has run.",
                                PyExc_RuntimeError, nullptr);
  input_elsewhere_error = PyErr_NewExceptionWithDoc("npugraph._C.InputElsewhere",
                                                    "An input lies elsewhere in its storage; nothing has run.",
                                                    PyExc_RuntimeError, nullptr);
  PyObject* type = PyType_FromSpec(&spec);
  if (inputs_overlap_error == nullptr || input_elsewhere_error == nullptr || type == nullptr)
    throw pybind11::error_already_set();
  callable_type = reinterpret_cast<PyTypeObject*>(type);
  module.attr("InputsOverlap") = pybind11::handle(inputs_overlap_error);
  module.attr("InputElsewhere") = pybind11::handle(input_elsewhere_error);
  module.attr("Callable") = pybind11::handle(type);
}

}  // namespace npugraph::bindings
