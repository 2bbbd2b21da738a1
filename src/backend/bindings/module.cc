// SPDX-License-Identifier: Apache-2.0
// npugraph._C: the list of topics. Logic lives below; each topic has its own file.
#include "backend/bindings/callable.h"
#include "backend/bindings/init.h"
#include "base/error.h"
#include "ir/refused.h"

namespace {

namespace py = pybind11;

// ValueError, with the name of the operator's node.
PyObject* operator_refused = nullptr;

void raise_refused(const npugraph::ir::OperatorRefused& refused) {
  const py::object error = py::handle(operator_refused)(refused.what());
  error.attr("node") = refused.node();
  PyErr_SetObject(operator_refused, error.ptr());
}

// Errors of the user become a ValueError in Python, defects of npugraph a RuntimeError.
void init_errors(py::module_& module) {
  operator_refused = PyErr_NewExceptionWithDoc(
      "npugraph._C.OperatorRefused", "Nothing can compute an operator of a graph. ``node`` is the name of its node.",
      PyExc_ValueError, nullptr);
  if (operator_refused == nullptr) throw py::error_already_set();
  module.attr("OperatorRefused") = py::handle(operator_refused);
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const npugraph::ir::OperatorRefused& e) {
      raise_refused(e);
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
  init_errors(module);
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
