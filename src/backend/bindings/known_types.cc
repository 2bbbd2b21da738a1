// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "backend/bindings/init.h"

namespace npugraph::bindings {

namespace {

// The classes of objects at one time. The objects may die; their classes are kept alive, so that no other class gets
// their addresses.
class KnownTypes {
 public:
  explicit KnownTypes(const py::list& objects) {
    for (const py::handle object : objects) known_.push_back({py::weakref(object), py::type::of(object)});
  }

  // Whether each object lives and has the class it had.
  bool hold() const {
    return std::ranges::all_of(known_, [](const Known& known) {
      return Py_IS_TYPE(PyWeakref_GetObject(known.object.ptr()), reinterpret_cast<PyTypeObject*>(known.type.ptr()));
    });
  }

 private:
  struct Known {
    py::weakref object;
    py::type type;
  };
  std::vector<Known> known_;
};

}  // namespace

void init_known_types(py::module_& module) {
  py::class_<KnownTypes>(module, "KnownTypes")
      .def(py::init<const py::list&>())
      .def("__call__", [](const KnownTypes& known, const py::handle&) { return known.hold(); });
}

}  // namespace npugraph::bindings
