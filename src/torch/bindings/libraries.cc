// SPDX-License-Identifier: Apache-2.0
// Libraries of users' kernels.
#include <string>
#include <vector>

#include "libraries/library.h"
#include "torch/bindings/init.h"

namespace npugraph::bindings {

void init_libraries(py::module_& module) {
  module.def(
      "load_library",
      [](const std::string& path) {
        std::vector<std::string> schemas;
        for (const libraries::Kernel* kernel : libraries::load(path)) schemas.push_back(kernel->schema.text);
        return schemas;
      },
      py::arg("path"), py::call_guard<py::gil_scoped_release>(),
      "Loads a library of kernels. Returns the schemas of their operators.");
}

}  // namespace npugraph::bindings
