// SPDX-License-Identifier: Apache-2.0
// npugraph._ascend: Ascend's operators and process groups, which torch_npu loads.
#include "torch/bindings/ascend/init.h"
#include "torch/npu_ops/registration.h"

PYBIND11_MODULE(_ascend, module) {
  module.def("register_operators", &npugraph::npu_ops::register_operators,
             "Defines the operators of the namespaces npu and atb. Later calls do nothing.");
  npugraph::bindings::init_process_group(module);
}
