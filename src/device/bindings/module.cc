// SPDX-License-Identifier: Apache-2.0
// npugraph._ascend, which torch_npu loads: the npu device, its captured graphs, Ascend's operators, and the process
// group of the backend "hccl".
#include <pybind11/chrono.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "device/bindings/init.h"
#include "device/distributed/process_group_hccl.h"
#include "device/eager/register.h"
#include "device/npu_ops/registration.h"

namespace npugraph::bindings {

using distributed::ProcessGroupHccl;

// A reference from Python to an object whose destructor may wait for threads that need the GIL. pybind11 also reads
// this holder as that of torch's base class, an intrusive_ptr, so it must have exactly the layout of one.
template <typename T>
class HeldWithoutGil {
 public:
  HeldWithoutGil() = default;
  HeldWithoutGil(c10::intrusive_ptr<T> object) : object_(std::move(object)) {}  // NOLINT: pybind11 converts
  explicit HeldWithoutGil(T* object)
      : object_(c10::intrusive_ptr<T>::unsafe_steal_from_new(object)) {}  // NOLINT: its own reference
  HeldWithoutGil(const HeldWithoutGil&) = default;
  HeldWithoutGil(HeldWithoutGil&&) noexcept = default;
  HeldWithoutGil& operator=(const HeldWithoutGil&) = default;
  HeldWithoutGil& operator=(HeldWithoutGil&&) noexcept = default;
  ~HeldWithoutGil() {
    if (!PyGILState_Check()) return;
    const py::gil_scoped_release no_gil;
    object_.reset();
  }

  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_.get(); }
  T* get() const noexcept { return object_.get(); }

 private:
  c10::intrusive_ptr<T> object_;
};

}  // namespace npugraph::bindings

PYBIND11_DECLARE_HOLDER_TYPE(T, npugraph::bindings::HeldWithoutGil<T>, true)

namespace npugraph::bindings {
namespace {

using Options = ProcessGroupHccl::Options;
using OptionsPtr = c10::intrusive_ptr<Options>;

OptionsPtr copied(const Options& options) { return c10::make_intrusive<Options>(options); }

void define_options(const py::object& group) {
  py::class_<Options, c10d::Backend::Options, OptionsPtr>(group, "Options", "Settings of a process group of hccl.")
      .def(py::init<bool>(), py::arg("is_high_priority_stream") = false)
      .def_readwrite("is_high_priority_stream", &Options::is_high_priority_stream)
      .def_readwrite("hccl_config", &Options::hccl_config)
      .def_readwrite("op_timeout", &Options::op_timeout)
      .def_readwrite("group_id", &Options::group_id)
      .def("__copy__", &copied)
      .def("__deepcopy__", [](const Options& options, const py::dict&) { return copied(options); });
}

void define_process_group(py::module_& module) {
  py::class_<ProcessGroupHccl, c10d::Backend, HeldWithoutGil<ProcessGroupHccl>> group(
      module, "ProcessGroupHCCL", "Process group of npu over gloo.");
  define_options(group);
  const auto end_all = [] {
    const py::gil_scoped_release no_gil;
    ProcessGroupHccl::shutdown_all();
  };
  py::module_::import("atexit").attr("register")(py::cpp_function(end_all));
  using NoGil = py::call_guard<py::gil_scoped_release>;
  group
      .def(py::init(
               [](c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::Backend> gloo, OptionsPtr options) {
                 return HeldWithoutGil(ProcessGroupHccl::create(std::move(store), std::move(gloo), std::move(options)));
               }),
           py::arg("store"), py::arg("gloo"), py::arg("options"))
      .def_property_readonly("_store", &ProcessGroupHccl::store)
      .def("_reconnect", &ProcessGroupHccl::reconnect, py::arg("gloo"), NoGil())
      .def(
          "boxed",
          [](ProcessGroupHccl& self) {
            return torch::jit::toPyObject(
                c10::IValue(c10::intrusive_ptr<ProcessGroupHccl>::unsafe_reclaim_from_nonowning(&self)));
          },
          "This group as operators take it (torch.ops.npu.wrap_*).")
      .def_property_readonly("_reconnections", &ProcessGroupHccl::reconnections)
      .def_property_readonly("options", &ProcessGroupHccl::options)
      .def("_set_default_timeout", &ProcessGroupHccl::setTimeout, py::arg("timeout"), NoGil())
      .def(
          "perform_nocolor_split", [](ProcessGroupHccl&, const at::Device&) {},
          "For ranks outside of a group that others split off: gloo does not need them.")
      .def(
          "get_hccl_comm_name", [](const ProcessGroupHccl& self, int, bool) { return self.comm_name(); },
          py::arg("rank"), py::arg("init_comm") = true,
          "The name of this group for operators that communicate; the same on all ranks.");
}

}  // namespace
}  // namespace npugraph::bindings

PYBIND11_MODULE(_ascend, module) {
  npugraph::bindings::init_device(module);
  npugraph::bindings::init_graphs(module);
  module.def("register_device", &npugraph::eager::register_device,
             "Makes npu a device of this process, after its operators are registered. Later calls do nothing. "
             "RuntimeError if the process has another device in its place.");
  module.def("register_operators", &npugraph::npu_ops::register_operators,
             "Defines the operators of the namespaces npu and atb. Later calls do nothing.");
  npugraph::bindings::define_process_group(module);
}
