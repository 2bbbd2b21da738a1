// SPDX-License-Identifier: Apache-2.0
// npugraph._C: the list of topics. Logic lives below; each topic has its own file.
#include "base/error.h"
#include "torch/bindings/callable.h"
#include "torch/bindings/init.h"

namespace {

namespace py = pybind11;

// The two doors for errors, in Python: what the user gave is a ValueError, what we broke a RuntimeError.
void init_errors() {
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const npugraph::UserError& e) {
      PyErr_SetString(PyExc_ValueError, e.what());
    } catch (const npugraph::InternalError& e) {
      PyErr_SetString(PyExc_RuntimeError, e.what());
    }
  });
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  using namespace npugraph::bindings;
  module.attr("version") = NPUGRAPH_VERSION;
  init_errors();
  init_observe(module);  // before anybody else reads the environment, whose warnings go to Python's log
  init_callable(module);
  init_expr(module);
  init_graph(module);
  init_fx_importer(module);
  init_artifact(module);
  init_nested(module);
  init_torch_counters(module);
  init_known_types(module);
  init_weights(module);
  init_device(module);
  init_distributed(module);
  init_graphs(module);
}
