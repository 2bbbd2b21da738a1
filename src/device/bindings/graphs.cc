// SPDX-License-Identifier: Apache-2.0
// npugraph._ascend: captured graphs, the native functions behind torch_npu/npu/graphs.py.
#include <torch/csrc/Exceptions.h>

#include "device/bindings/init.h"
#include "device/capture/captured_graph.h"
#include "device/npu/facts.h"
#include "device/runtime/streams.h"

namespace npugraph::bindings {
namespace {

using capture::CapturedGraph;
using capture::ErrorMode;
using capture::ExternalEvent;
using capture::TaskGroup;
using Pool = std::pair<int64_t, int64_t>;
using NoGil = py::call_guard<py::gil_scoped_release>;  // a thread that replays may need it

c10::Stream current_stream() { return device::current_stream(npu::current_device()); }

void begin(CapturedGraph& graph, const std::optional<Pool>& pool, const std::string& mode) {
  std::optional<c10::MempoolId_t> id;
  if (pool)
    id = c10::MempoolId_t{static_cast<c10::CaptureId_t>(pool->first), static_cast<c10::CaptureId_t>(pool->second)};
  const ErrorMode parsed = runtime::parse_capture_error_mode(mode);
  const py::gil_scoped_release no_gil;
  graph.begin(current_stream(), id, parsed);
}

Pool as_pool(c10::MempoolId_t id) { return {static_cast<int64_t>(id.first), static_cast<int64_t>(id.second)}; }

bool is_capturing(const c10::Stream& stream) {
  const auto capture = capture::capture_of(stream);
  return capture && capture->purpose() == capture::Purpose::kGraph;
}

}  // namespace

void init_graphs(py::module_& module) {
  py::class_<capture::Launch>(module, "Launch")
      .def_readonly("name", &capture::Launch::name)
      .def_property_readonly("stream", [](const capture::Launch& launch) { return launch.stream.id(); })
      .def_property_readonly("device",
                             [](const capture::Launch& launch) { return int64_t{launch.stream.device_index()}; })
      .def_readonly("waits", &capture::Launch::waits);
  py::class_<CapturedGraph, std::shared_ptr<CapturedGraph>>(module, "CapturedGraph")
      .def(py::init<>())
      .def("begin", &begin)
      .def("end", torch::wrap_pybind_function_no_gil([](CapturedGraph& graph) { graph.end(current_stream()); }))
      .def("abandon", &CapturedGraph::abandon, NoGil())
      .def(
          "replay", [](CapturedGraph& graph) { graph.replay(current_stream()); }, NoGil())
      .def("reset", &CapturedGraph::reset, NoGil())
      .def(
          "pool", [](const CapturedGraph& graph) { return as_pool(graph.pool()); }, NoGil())
      .def("text", &CapturedGraph::text, NoGil())
      .def("launched", &CapturedGraph::launched, NoGil())
      .def("_memory", [](const CapturedGraph& graph) {
        const auto info = [&] {
          const py::gil_scoped_release no_gil;
          return graph.memory();
        }();
        return py::dict(py::arg("arena_bytes") = info.arena_bytes,
                        py::arg("copied_bytes_per_replay") = info.copied_bytes_per_replay);
      });
  py::class_<TaskGroup, std::shared_ptr<TaskGroup>>(module, "TaskGroup");
  py::class_<ExternalEvent, std::shared_ptr<ExternalEvent>>(module, "ExternalEvent")
      .def(py::init<>())
      .def("record", &ExternalEvent::record, NoGil())
      .def("wait", &ExternalEvent::wait, NoGil())
      .def("reset", &ExternalEvent::reset, NoGil());
  module.def("new_pool", [] { return as_pool(capture::new_pool()); });
  module.def("is_capturing", &is_capturing);
  module.def("is_watching", &capture::is_watching);  // whether anything is being captured
  module.def("check_may_allocate", &capture::check_host_may_allocate);
  module.def(
      "begin_task_group",
      [](const c10::Stream& stream) { capture::graph_capture_of("graph_task_group_begin", stream)->begin_group(); },
      NoGil());
  module.def("end_task_group", [](const c10::Stream& stream) {
    return capture::graph_capture_of("graph_task_group_end", stream)->end_group();
  });
  module.def("begin_task_update", &capture::begin_update, py::arg("stream"), py::arg("handle").none(false), NoGil());
  module.def("end_task_update", &capture::end_update, NoGil());
  module.def("abandon_task_update", &capture::abandon_update, NoGil());
}

}  // namespace npugraph::bindings
