// SPDX-License-Identifier: Apache-2.0
// Counters, task log, memory pools, trace, watching of tasks, log messages, worker threads, allocation hook, callables
// of Python tasks, the machine.
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/utils/pythoncapi_compat.h>  // Py_IsFinalizing before Python 3.13

#include "backend/bindings/init.h"
#include "backend/bridge/convert.h"
#include "backend/bridge/torch_host.h"
#include "base/counters.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/trace.h"
#include "passes/pass.h"
#include "runtime/threads/worker_pool.h"
#include "runtime/watch/ledger.h"
#include "runtime/watch/running_tasks.h"
#include "runtime/watch/task_watch.h"
#include "target/target.h"

namespace npugraph::bindings {
namespace {

// torch keeps all counters in one dictionary, which users may clear. npugraph's entry in it is a view (a Python class)
// of what the process has counted since the view was made. Never destroyed: the interpreter may be gone before static
// objects are.
struct Place {
  py::dict dictionary;
  py::str key;
  py::type view;
};
Place* place = nullptr;

}  // namespace

void ensure_counters() {
  if (place == nullptr) return;
  const PyObject* found = PyDict_GetItemWithError(place->dictionary.ptr(), place->key.ptr());
  if (found != nullptr && Py_IS_TYPE(found, reinterpret_cast<PyTypeObject*>(place->view.ptr()))) return;
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  place->dictionary[place->key] = place->view();
}

namespace {

void init_torch_counters(py::module_& module) {
  module.def("process_counters", [] { return process_counters().snapshot(); });
  module.def("count", [](const std::string& name) { process_counters().at(name).add(); });
  module.def("ensure_counters", &ensure_counters);
  module.def("keep_counters", [](py::dict dictionary, const std::string& key, py::type view) {
    place = new Place{std::move(dictionary), py::str(key), std::move(view)};
  });
}

using runtime::PoolEvent;
using runtime::PoolInfo;
using runtime::TaskRecord;

const char* mode_name(runtime::RunMode mode) {
  switch (mode) {
    case runtime::RunMode::kEager: return "eager";
    case runtime::RunMode::kCapture: return "capture";
    case runtime::RunMode::kReplay: return "replay";
  }
  return "";
}

std::string record_repr(const TaskRecord& record) {
  return cat("<npugraph.TaskRecord ", record.sequence, " of ", record.artifact, ": ", record.name, ", ", record.kind,
             ", ", mode_name(record.mode), ", ", record.end_ns - record.begin_ns, " ns>");
}

std::string record_repr(const PoolInfo& pool) {
  return cat("<npugraph.PoolInfo ", pool.name, ": ", pool.live_bytes, " bytes live, ", pool.peak_bytes, " at most>");
}

std::string record_repr(const PoolEvent& event) {
  return cat("<npugraph.PoolEvent ", event.what, " ", event.bytes, " bytes at ", event.ns, " ns>");
}

void init_task_log(py::module_& module) {
  py::class_<TaskRecord>(module, "TaskRecord")
      .def_readonly("sequence", &TaskRecord::sequence)
      .def_readonly("artifact", &TaskRecord::artifact)
      .def_readonly("instance", &TaskRecord::instance)
      .def_readonly("task", &TaskRecord::task)
      .def_readonly("name", &TaskRecord::name)
      .def_readonly("kind", &TaskRecord::kind)
      .def_property_readonly("mode", [](const TaskRecord& r) { return mode_name(r.mode); })
      .def_readonly("stream", &TaskRecord::stream)
      .def_readonly("stream_id", &TaskRecord::stream_id)
      .def_readonly("device", &TaskRecord::device)
      .def_readonly("workers", &TaskRecord::workers)
      .def_readonly("limits", &TaskRecord::limits)
      .def_readonly("scopes", &TaskRecord::scopes)
      .def_readonly("begin_ns", &TaskRecord::begin_ns)
      .def_readonly("end_ns", &TaskRecord::end_ns)
      .def_readonly("waits", &TaskRecord::waits)
      .def_readonly("plan", &TaskRecord::plan)
      .def("__repr__", [](const TaskRecord& record) { return record_repr(record); });
  module.def("task_log_start", [] { runtime::TaskLog::instance().start(); });
  module.def("task_log_stop", [] { return runtime::TaskLog::instance().stop(); });
}

void init_pools(py::module_& module) {
  py::class_<PoolEvent>(module, "PoolEvent")
      .def_readonly("ns", &PoolEvent::ns)
      .def_readonly("what", &PoolEvent::what)
      .def_readonly("bytes", &PoolEvent::bytes)
      .def("__repr__", [](const PoolEvent& event) { return record_repr(event); });
  py::class_<PoolInfo>(module, "PoolInfo")
      .def_readonly("name", &PoolInfo::name)
      .def_readonly("owners", &PoolInfo::owners)
      .def_readonly("live_bytes", &PoolInfo::live_bytes)
      .def_readonly("peak_bytes", &PoolInfo::peak_bytes)
      .def_readonly("history", &PoolInfo::history)
      .def("__repr__", [](const PoolInfo& pool) { return record_repr(pool); });
  module.def("pools", &runtime::pools);
  module.def("set_poison", &runtime::set_poison);
  module.def("record_running_tasks", &runtime::record_running_tasks);
}

at::Tensor tensor_of(void* object) {
  return at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(static_cast<c10::TensorImpl*>(object)));
}

at::Tensor copy_of(const at::Tensor& tensor, const program::Buffer& buffer) {
  return tensor.detach().clone().to(bridge::to_torch(buffer.device));
}

// A copy of the present contents of an operand; an undefined tensor if it has none yet.
at::Tensor copy_of(const runtime::WatchedOperand& watched, bool done) {
  const ng_buffer& window = watched.window;
  const bool made_by_task = watched.operand.access == program::Access::kWrite &&
                            watched.buffer.cls == program::BufferClass::kHeap && !watched.buffer.preallocated;
  if (watched.buffer.opaque || made_by_task) {
    if (window.object == nullptr || (made_by_task && !done)) return {};
    return copy_of(tensor_of(window.object), watched.buffer);
  }
  const at::IntArrayRef sizes(window.sizes, window.rank);
  const at::IntArrayRef strides(window.strides, window.rank);
  return copy_of(bridge::tensor_over(window.data, sizes, strides, watched.operand.dtype, nullptr), watched.buffer);
}

const char* access_name(program::Access access) {
  switch (access) {
    case program::Access::kRead: return "read";
    case program::Access::kWrite: return "write";
    case program::Access::kReadWrite: return "readwrite";
  }
  return "";
}

py::object number(const Scalar& value) {
  switch (value.kind) {
    case ScalarKind::kInt: return py::int_(value.as_int());
    case ScalarKind::kFloat: return py::float_(value.as_float());
    case ScalarKind::kBool: return py::bool_(value.as_bool());
  }
  return py::none();
}

// Before the first task: copies of the inputs, and the values of the symbols, by name. Otherwise None.
py::object start_of(const runtime::WatchedTask& watched) {
  if (watched.task != 0 || watched.done) return py::none();
  py::dict inputs;
  for (const runtime::WatchedInput& input : watched.inputs) {
    const at::Tensor tensor = bridge::tensor_over(input.data, input.sizes, input.strides, input.input.dtype, nullptr);
    inputs[py::str(input.buffer.name)] = py::cast(copy_of(tensor, input.buffer));
  }
  py::dict symbols;
  for (const auto& [symbol, value] : watched.symbols) symbols[py::str(symbol.name)] = number(value);
  return py::make_tuple(inputs, symbols);
}

py::object or_none(const at::Tensor& tensor) { return tensor.defined() ? py::cast(tensor) : py::none(); }

// Calls `function(artifact, task, done, [(buffer, access, copy or None), ...], start)`, see start_of().
void show_to_python(const py::object& function, const runtime::WatchedTask& watched) {
  const py::gil_scoped_acquire gil;
  try {
    py::list operands;
    for (const runtime::WatchedOperand& operand : watched.operands) {
      operands.append(py::make_tuple(operand.buffer.name, access_name(operand.operand.access),
                                     or_none(copy_of(operand, watched.done))));
    }
    function(watched.artifact, watched.task, watched.done, operands, start_of(watched));
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("npugraph's watching of tasks");
  } catch (const std::exception& error) {  // from ATen
    PyErr_SetString(PyExc_RuntimeError, error.what());
    PyErr_WriteUnraisable(function.ptr());
  }
}

// `function` None ends the watching.
void set_task_watch(const py::object& function) {
  if (function.is_none()) return runtime::set_task_watch({});
  // Replays of other threads may be the last to hold the function.
  std::shared_ptr<py::object> held(new py::object(function), [](py::object* object) {
    const py::gil_scoped_acquire gil;
    delete object;
  });
  runtime::set_task_watch([held](const runtime::WatchedTask& task) { show_to_python(*held, task); });
}

int python_level(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return 40;
    case LogLevel::kWarning: return 30;
    case LogLevel::kInfo: return 20;
    case LogLevel::kDebug: return 10;
    case LogLevel::kEvent: return 35;
  }
  return 0;
}

// Logs to Python's logger "npugraph" if that has handlers, else to stderr. Takes the GIL, so the caller must not hold a
// lock that a thread with the GIL may wait for.
void log_to_python(LogLevel level, const std::string& message) {
  if (Py_IsInitialized() == 0 || Py_IsFinalizing() != 0) return write_log_to_stderr(level, message);
  const py::gil_scoped_acquire gil;
  const py::error_scope unchanged;  // the caller may be handling an exception of Python
  try {
    const py::object logger = py::module_::import("logging").attr("getLogger")("npugraph");
    if (!logger.attr("hasHandlers")().cast<bool>()) return write_log_to_stderr(level, message);
    const auto text = py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace"));
    logger.attr("log")(python_level(level), text);
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("npugraph's log");
  }
}

// The environment is read here, under the GIL, because its warnings are logged while other threads wait for it.
void init_log() {
  set_log_sink(log_to_python);
  environment();
  py::module_::import("atexit").attr("register")(py::cpp_function([] { set_log_sink({}); }));
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const passes::Pass& pass : passes::all_passes()) names.emplace_back(pass.name);
  return names;
}

}  // namespace

void init_observe(py::module_& module) {
  init_torch_counters(module);
  init_task_log(module);
  init_pools(module);
  init_log();
  module.def("trace_start", &trace::start);
  module.def("trace_stop", [](const std::string& path) { trace::write(trace::stop(), path); });
  module.def("set_task_watch", &set_task_watch);
  py::module_::import("atexit").attr("register")(py::cpp_function([] { runtime::set_task_watch({}); }));
  module.def("pass_names", &pass_names);
  module.def("cache_directory", [] { return cache_directory(); });
  module.def("target_name", [] { return target::host_target().level; });
  module.def("num_threads", [] { return runtime::WorkerPool::instance().size(); });
  module.def("set_num_threads", [](int32_t threads) { runtime::WorkerPool::instance().set_size(threads); });
  module.def("register_callable", [](const py::object& fn) { return bridge::register_callable(fn.ptr()); });
  module.def("unregister_callable", &bridge::unregister_callable);
  init_allocation_hook(module);
}

}  // namespace npugraph::bindings
