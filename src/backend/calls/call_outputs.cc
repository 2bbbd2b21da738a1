// SPDX-License-Identifier: Apache-2.0
#include "backend/calls/call_outputs.h"

#include <utility>

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/utils/object_ptr.h>

#include "backend/bridge/convert.h"
#include "backend/bridge/declared.h"
#include "backend/bridge/host_device.h"
#include "backend/bridge/run_result.h"
#include "backend/bridge/storage_pairs.h"
#include "base/error.h"

namespace npugraph::calls {

namespace {

using runtime::BoundOutput;

// The view shares the version counter of the input, because autograd may save it.
at::Tensor view_of_input(const at::Tensor& input, const BoundOutput& output) {
  at::Tensor view = bridge::window_of(input, output);
  if (!input.is_inference() && !view.is_inference()) {
    torch::autograd::impl::set_version_counter(view, torch::autograd::impl::version_counter(input));
  }
  return view;
}

PyObject* wrap_tensor(const program::Program& program, const program::Output& declared, BoundOutput& output,
                      const CallInputs& inputs, bridge::StoragePairs& on_device) {
  const program::Buffer& buffer = program.buffers[declared.tensor.buffer];
  const bool from_input = buffer.cls == program::BufferClass::kInput || buffer.cls == program::BufferClass::kParameter;
  if (from_input) {
    const auto input = static_cast<size_t>(buffer.source);
    if (buffer.opaque) return Py_NewRef(inputs.object(input));
    return THPVariable_Wrap(view_of_input(inputs.memory(input), output));
  }
  if (buffer.opaque) return THPVariable_Wrap(bridge::take_object(output));
  if (output.object != nullptr && bridge::is_absent(*static_cast<c10::TensorImpl*>(output.object)))
    return Py_NewRef(Py_None);
  at::Tensor result = bridge::result_of(output);
  if (buffer.device != Device{} && result.is_cpu()) {
    const bridge::HostDevice& device = *bridge::host_device();
    const c10::DeviceIndex index = bridge::to_torch(buffer.device).index();
    const auto make = [&](const c10::Storage& cpu) { return device.storage_over(cpu, index); };
    device.move_into(*result.unsafeGetTensorImpl(), on_device.over(result.storage(), make));
  }
  return THPVariable_Wrap(std::move(result));
}

PyObject* wrap_scalar(const BoundOutput& output) {
  switch (output.scalar_kind) {
    case ScalarKind::kInt: return PyLong_FromLongLong(output.scalar.i);
    case ScalarKind::kFloat: return PyFloat_FromDouble(output.scalar.f);
    case ScalarKind::kBool: return PyBool_FromLong(output.scalar.i != 0);
  }
  NG_CHECK(false, "scalar kind ", static_cast<int>(output.scalar_kind));
}

PyObject* wrap(const program::Program& program, const program::Output& declared, BoundOutput& output,
               const CallInputs& inputs, bridge::StoragePairs& on_device) {
  switch (declared.kind) {
    case program::Output::Kind::kTensor: return wrap_tensor(program, declared, output, inputs, on_device);
    case program::Output::Kind::kInput: return Py_NewRef(inputs.object(static_cast<size_t>(declared.input)));
    case program::Output::Kind::kScalar: return wrap_scalar(output);
    case program::Output::Kind::kNone: break;
  }
  return Py_NewRef(Py_None);
}

}  // namespace

PyObject* wrap_outputs(const program::Program& program, std::span<BoundOutput> outputs, const CallInputs& inputs) {
  struct DropRest {
    std::span<BoundOutput> outputs;
    ~DropRest() {
      for (BoundOutput& output : outputs) {
        if (output.object != nullptr) bridge::take_object(output);
      }
    }
  } const drop_rest{outputs};

  bridge::StoragePairs on_device;
  THPObjectPtr tuple(PyTuple_New(static_cast<Py_ssize_t>(outputs.size())));
  if (!tuple) throw python_error();
  for (size_t i = 0; i < outputs.size(); ++i) {
    PyObject* object = wrap(program, program.outputs[i], outputs[i], inputs, on_device);
    if (object == nullptr) throw python_error();
    PyTuple_SET_ITEM(tuple.get(), i, object);
  }
  return tuple.release();
}

}  // namespace npugraph::calls
