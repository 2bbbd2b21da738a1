// SPDX-License-Identifier: Apache-2.0
#include "backend/bindings/torch_counters.h"

#include <string>
#include <utility>

#include "backend/bindings/init.h"
#include "base/counters.h"

namespace npugraph::bindings {

namespace {

// Never destroyed: the interpreter may be gone before static objects are.
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

void init_torch_counters(py::module_& module) {
  module.def("process_counters", [] { return process_counters().snapshot(); });
  module.def("count", [](const std::string& name) { process_counters().at(name).add(); });
  module.def("ensure_counters", &ensure_counters);
  module.def("keep_counters", [](py::dict dictionary, const std::string& key, py::type view) {
    place = new Place{std::move(dictionary), py::str(key), std::move(view)};
  });
}

}  // namespace npugraph::bindings
