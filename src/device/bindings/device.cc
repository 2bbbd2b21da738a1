// SPDX-License-Identifier: Apache-2.0
// npugraph._ascend: the native functions behind packaging/torch_npu.
#include <atomic>

#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include "device/bindings/init.h"
#include "device/capture/collective_call.h"
#include "device/npu/facts.h"
#include "device/npu/format.h"
#include "device/npu/generator.h"
#include "device/npu/host_limit.h"
#include "device/npu/memory.h"
#include "device/npu/messages.h"
#include "device/npu/operators.h"
#include "device/npu/tensor.h"
#include "device/runtime/pinned_memory.h"
#include "device/runtime/streams.h"

namespace npugraph::bindings {
namespace {

using npu::DeviceMemory;

py::dict facts_dict() {
  const npu::Facts& facts = npu::facts();
  return py::dict(py::arg("name") = facts.name, py::arg("memory_bytes") = npu::device_bytes(),
                  py::arg("soc_version") = facts.soc_version, py::arg("cube_cores") = facts.cube_cores,
                  py::arg("vector_cores") = facts.vector_cores, py::arg("l2_cache_bytes") = facts.l2_cache_bytes);
}

py::list pieces_of(c10::DeviceIndex index) {
  py::list out;
  for (const DeviceMemory::Piece& piece : DeviceMemory::of(index).pieces())
    out.append(py::make_tuple(piece.address, piece.bytes));
  return out;
}

py::dict pinned_stats() {
  const at::HostStats stats = device::pinned_allocator().get_stats();
  py::dict out;
  auto put = [&](const std::string& name, const at::Stat& stat) {
    out[py::str(name + ".current")] = stat.current;
    out[py::str(name + ".peak")] = stat.peak;
    out[py::str(name + ".allocated")] = stat.allocated;
    out[py::str(name + ".freed")] = stat.freed;
  };
  put("active_requests", stats.active_requests);
  put("active_bytes", stats.active_bytes);
  put("allocations", stats.allocations);
  put("allocated_bytes", stats.allocated_bytes);
  return out;
}

c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

// TypeError that names `what` if the tensor has no npu memory: a CPU tensor or a fake one.
c10::StorageImpl* npu_storage_of(const char* what, const at::Tensor& tensor) {
  const bool is_npu = tensor.has_storage() && tensor.storage().device().type() == npu::kNpu;
  TORCH_CHECK_TYPE(is_npu, what, ": the tensor has no memory of npu");
  return storage_of(tensor);
}

at::Tensor over(c10::Storage storage, const at::Tensor& like) {
  return at::empty({0}, like.options().device(storage.device()))
      .set_(std::move(storage), like.storage_offset(), like.sizes(), like.strides());
}

// Issues a UserWarning of Python at the line of the caller.
void warn_in_python(const std::string& text) {
  const py::gil_scoped_acquire gil;
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) != 0) throw py::error_already_set();
}

// Prints with Python's print(), so that its redirections apply.
void print_in_python(const std::string& name, const at::Tensor& tensor) {
  const py::gil_scoped_acquire gil;
  const auto text = py::str("{}{}, shape={}, dtype={}");
  const py::object value = py::cast(tensor);
  py::module_::import("builtins")
      .attr("print")(text.format(name.empty() ? name : name + "=", py::repr(value),
                                 py::tuple(py::list(value.attr("shape"))), value.attr("dtype")));
}

void def_formats(py::module_& module) {
  npu::set_warning_sink(&warn_in_python);
  npu::set_printer(&print_in_python);
  module.def("allow_internal_formats", &npu::allow_internal_formats);
  module.def("internal_formats_allowed", &npu::internal_formats_allowed);
  module.def("format", [](const at::Tensor& tensor) { return npu::format_of(npu_storage_of("format", tensor)); });
  module.def("set_format",
             [](const at::Tensor& tensor, int code) { npu::format_of(npu_storage_of("set_format", tensor)) = code; });
}

// Aliases of memory: an npu storage and its host storage are over the same bytes (device/npu/memory.h).
void def_sharing(py::module_& module) {
  module.def("cpu_alias", [](const at::Tensor& tensor) {
    npu_storage_of("cpu_alias", tensor);
    return npu::cpu_alias(tensor);
  });
  module.def("follow_host_storage",
             [](const at::Tensor& tensor) { npu::follow_host_storage(npu_storage_of("follow_host_storage", tensor)); });
  module.def("borrow",
             [](const at::Tensor& tensor) { return over(npu::borrow(npu_storage_of("borrow", tensor)), tensor); });
  module.def("npu_alias", [](const at::Tensor& cpu, int64_t index) {
    return over(npu::adopt(cpu.storage(), npu::checked_device(index)), cpu);
  });
}

// Streams are passed as their ids and devices, limits as (cube, vector).
void def_core_limits(py::module_& module) {
  const auto pair = [](CoreLimits limits) { return py::make_tuple(limits.cube, limits.vector); };
  const auto stream_of = [](c10::StreamId id, int64_t index) {
    return c10::Stream(c10::Stream::UNSAFE, {npu::kNpu, npu::checked_device(index)}, id);
  };
  module.def("device_limits", [=](int64_t index) { return pair(device::device_limits(npu::checked_device(index))); });
  module.def("limit_device", [](int64_t index, int32_t cube, int32_t vector) {
    device::limit_device(npu::checked_device(index), {cube, vector});
  });
  module.def("stream_limits",
             [=](c10::StreamId id, int64_t index) { return pair(device::stream_limits(stream_of(id, index))); });
  module.def("limit_stream", [=](c10::StreamId id, int64_t index, int32_t cube, int32_t vector) {
    device::limit_stream(stream_of(id, index), {cube, vector});
  });
  module.def("reset_stream_limits",
             [=](c10::StreamId id, int64_t index) { device::reset_stream_limits(stream_of(id, index)); });
}

// Events are passed to and from Python as addresses; 0 is one that was never recorded.
const device::Event& timed_event(uintptr_t address) {
  return device::timed_event(reinterpret_cast<const void*>(address));
}

std::atomic<bool> profiled_child_threads = false;

void profile_child_thread(bool on) {
  if (!on) return torch::autograd::profiler::disableProfilerInChildThread();
  if (!torch::autograd::profiler::isProfilerEnabledInMainThread()) return;
  torch::autograd::profiler::enableProfilerInChildThread();
  profiled_child_threads = true;
}

// Called in the thread that profiled. torch's profiler remembers only the callback of the thread that joined last, and
// would leave that of its own thread behind, which would count twice in the next profile.
void end_profile_of_child_threads() {
  if (profiled_child_threads.exchange(false)) at::clearThreadLocalCallbacks();
}

}  // namespace

void init_device(py::module_& module) {
  capture::install_collective_recorder();
  module.attr("TYPE") = static_cast<int>(npu::kNpu);
  py::enum_<npu::Computation>(module, "Computation")
      .value("PARTS", npu::Computation::kParts)
      .value("COMPOSITE", npu::Computation::kComposite)
      .value("WHOLE", npu::Computation::kWhole)
      .value("ON_NPU", npu::Computation::kOnNpu)
      .value("FACTORY", npu::Computation::kFactory)
      .value("MARK", npu::Computation::kMark)
      .value("SIZES", npu::Computation::kSizes);
  py::class_<npu::Operator>(module, "Operator")
      .def_readonly("name", &npu::Operator::name)
      .def_readonly("definition", &npu::Operator::definition)
      .def_readonly("computation", &npu::Operator::computation)
      .def_readonly("whole_with", &npu::Operator::whole_with)
      .def_property_readonly("overwrites", [](const npu::Operator& row) { return row.traits.overwrites; })
      .def_property_readonly("has_effect", [](const npu::Operator& row) { return row.traits.has_effect; })
      .def_property_readonly("on_host", [](const npu::Operator& row) { return row.traits.on_host; })
      .def_readonly("graph_form", &npu::Operator::graph_form);
  module.def("operators", &npu::operators, py::return_value_policy::reference);
  module.def("facts", &facts_dict);
  module.def("count", [] { return npu::facts().devices; });
  module.def("current", [] { return static_cast<int>(npu::current_device()); });
  module.def("set_current", [](int64_t index) { npu::set_current_device(npu::checked_device(index)); });
  module.def("checked_index", [](int64_t index) { return static_cast<int>(npu::checked_device(index)); });
  module.def("default_generator", [](int64_t index) { return npu::default_generator(npu::checked_device(index)); });
  module.def("memory_pieces", [](int64_t index) { return pieces_of(npu::checked_device(index)); });
  module.def("set_memory_fraction", [](int64_t index, double fraction) {
    DeviceMemory::of(npu::checked_device(index)).set_fraction(fraction);
  });
  module.def("memory_fraction", [](int64_t index) {
    return static_cast<double>(DeviceMemory::of(npu::checked_device(index)).capacity()) /
           static_cast<double>(npu::device_bytes());
  });
  module.def("pinned_memory_stats", &pinned_stats);
  module.def("reset_accumulated_pinned_memory_stats", [] { device::pinned_allocator().reset_accumulated_stats(); });
  module.def("reset_peak_pinned_memory_stats", [] { device::pinned_allocator().reset_peak_stats(); });
  module.def("profile_child_thread", &profile_child_thread);
  module.def("end_profile_of_child_threads", &end_profile_of_child_threads);
  def_formats(module);
  def_sharing(module);
  module.def("event_nanoseconds", [](uintptr_t event) { return timed_event(event).nanoseconds(); });
  module.def("milliseconds_between", [](uintptr_t begin, uintptr_t end) {
    return device::milliseconds_between(timed_event(begin), timed_event(end));
  });
  def_core_limits(module);
  module.def("stream_of_handle", [](uintptr_t handle) {
    const c10::Stream stream = device::stream_of_handle(handle);
    return py::make_tuple(stream.id(), static_cast<int>(stream.device_index()));
  });
}

}  // namespace npugraph::bindings
