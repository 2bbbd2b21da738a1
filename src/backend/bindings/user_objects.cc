// SPDX-License-Identifier: Apache-2.0
// Objects of the user that graphs rely on, and weights that they keep in another form.
#include <algorithm>
#include <string>
#include <utility>
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

// Tensors of the storage keep their sizes and strides, which front ends compare.
void free_storage(const at::Tensor& tensor, std::string reason) {
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  storage.set_data_ptr(at::DataPtr(nullptr, storage.data_ptr().device()));
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(reason));
}

}  // namespace

void init_user_objects(py::module_& module) {
  py::class_<KnownTypes>(module, "KnownTypes")
      .def(py::init<const py::list&>())
      .def("__call__", [](const KnownTypes& known, const py::handle&) { return known.hold(); });
  module.def(
      "free_storage", free_storage,
      "free_storage(tensor, reason)\n\nFrees the memory of the tensor's storage. Who reads or writes it from now on "
      "gets a RuntimeError with the reason.");
}

}  // namespace npugraph::bindings
