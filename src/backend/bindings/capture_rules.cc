// SPDX-License-Identifier: Apache-2.0
// npugraph._C.CaptureRules: the user's options for captures and the memory of graphs.
#include <string>

#include "backend/bindings/init.h"
#include "runtime/options.h"

namespace npugraph::bindings {

using runtime::CaptureRules;

void init_capture_rules(py::module_& module) {
  py::class_<CaptureRules>(module, "CaptureRules")
      .def(py::init<>())
      .def_readwrite("use_graph_pool", &CaptureRules::use_graph_pool)
      .def_readwrite("reuse_graph_pool_in_same_fx", &CaptureRules::reuse_graph_pool_in_same_fx)
      .def_readwrite("clone_input", &CaptureRules::clone_input)
      .def_readwrite("clone_output", &CaptureRules::clone_output)
      .def_readwrite("capture_limit", &CaptureRules::capture_limit)
      .def_readwrite("force_recapture", &CaptureRules::force_recapture)
      .def_readwrite("frozen_parameter", &CaptureRules::frozen_parameter)
      .def_property("capture_error_mode", nullptr, [](CaptureRules& rules, const std::string& mode) {
        rules.capture_error_mode = runtime::parse_capture_error_mode(mode);
      });
}

}  // namespace npugraph::bindings
