// SPDX-License-Identifier: Apache-2.0
// Libraries of users' kernels.
#include <string>
#include <vector>

#include "backend/bindings/init.h"
#include "backend/bridge/library_operators.h"
#include "libraries/launch.h"
#include "libraries/library.h"

namespace npugraph::bindings {

void init_libraries(py::module_& module) {
  bridge::define_exec_npu_cmd();
  module.def(
      "load_library",
      [](const std::string& path) {
        std::vector<std::string> schemas;
        const std::vector<const libraries::Kernel*> kernels = libraries::load(path);
        bridge::define_operators(kernels);
        for (const libraries::Kernel* kernel : kernels) schemas.push_back(kernel->schema.text);
        return schemas;
      },
      py::arg("path"), py::call_guard<py::gil_scoped_release>(),
      "Loads a library of kernels and defines their operators. Returns the schemas of these.");
  module.def(
      "library_of",
      [](const std::string& name) {
        const libraries::Kernel* kernel = libraries::find(name);
        return kernel == nullptr ? std::string() : kernel->library;
      },
      py::arg("name"), "The library that has a kernel of the operator \"ns.name\"; an empty text if none has.");
  module.def(
      "add_operator",
      [](const std::string& schema, const std::string& function, size_t count) {
        const libraries::Kernel& kernel = libraries::find_launched(function, count);
        bridge::define_operators({libraries::add_alias(schema, kernel)});
      },
      py::arg("schema"), py::arg("function"), py::arg("count"), py::call_guard<py::gil_scoped_release>(),
      "Gives the loaded kernel that is called as \"aclnnName\" with so many arguments, results among them, an operator "
      "with this schema.");
  module.def("ir_name", &libraries::ir_name, py::arg("name"), "The name of an operator in Ascend IR.");
}

}  // namespace npugraph::bindings
