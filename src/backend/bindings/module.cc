// SPDX-License-Identifier: Apache-2.0
// npugraph._C: the list of topics. Logic lives below; each topic has its own file.
#include "backend/bindings/callable.h"
#include "backend/bindings/init.h"
#include "base/error.h"

namespace {

namespace py = pybind11;

// Errors of the user become a ValueError in Python, defects of npugraph a RuntimeError.
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
  init_observe(module);  // first: warnings about the environment, which others read, go to Python's log
  init_callable(module);
  init_expr(module);
  init_graph(module);
  init_fx_importer(module);
  init_artifact(module);
  init_libraries(module);
  init_nested(module);
  init_ge(module);
  init_user_objects(module);
}
