// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include "backend/bridge/borrowed_tensor.h"
#include "backend/bridge/declared.h"
#include "backend/bridge/gil.h"
#include "backend/bridge/nested_task.h"
#include "backend/bridge/task_functions.h"
#include "backend/bridge/task_makers.h"
#include "backend/bridge/torch_host.h"
#include "base/error.h"

namespace npugraph::bridge {

namespace {

// An owned reference. Made, moved and destroyed under the GIL.
struct DropReference {
  void operator()(PyObject* object) const { Py_DECREF(object); }
};
using Reference = std::unique_ptr<PyObject, DropReference>;

[[noreturn]] void throw_python_error() {
  python_error error;
  error.persist();
  throw error;
}

Reference checked(PyObject* object) {
  if (object == nullptr) throw_python_error();
  return Reference(object);
}

// The callables by id. No thread waits for the GIL while it holds the mutex.
struct CallableTable {
  std::mutex mutex;
  std::unordered_map<int32_t, PyObject*> callables;
  int32_t next_id = 0;
};

CallableTable& callable_table() {
  static auto* table = new CallableTable;  // outlives the interpreter's shutdown
  return *table;
}

struct PythonState {
  std::vector<BorrowedTensor> tensors;  // one per tensor argument
};

class PythonTask {
 public:
  PythonTask(const program::Program& program, const program::Task& task, Reference callable);
  ~PythonTask();

  void bind(PythonState& state, const ng_call* call) const;
  void run(PythonState& state, ng_call* call) const;
  void finish(PythonState& state, const ng_call* call) const noexcept;

 private:
  Reference make_arguments(PythonState& state, const ng_call* call) const;
  void store_results(ng_call* call, Reference returned) const;
  void store_result(ng_call* call, Reference item, size_t number, size_t& symbols) const;

  PyObject* callable_;
  Declared declared_;
  std::vector<int32_t> tensor_operands_;
  std::vector<ScalarKind> scalar_kinds_;
};

PythonTask::PythonTask(const program::Program& program, const program::Task& task, Reference callable)
    : callable_(callable.release()), declared_(program, task) {
  for (const Attr& arg : task.args) {
    for_each_tensor(arg, [&](TensorRef ref) { tensor_operands_.push_back(ref.id); });
  }
  for (const int32_t expr : task.scalars) scalar_kinds_.push_back(program.exprs.at(expr).kind());
}

PythonTask::~PythonTask() {
  if (!Py_IsInitialized()) return;
  const Gil gil;
  Py_DECREF(callable_);
}

void PythonTask::bind(PythonState& state, const ng_call* call) const {
  if (state.tensors.empty()) {
    for (const int32_t operand : tensor_operands_) {
      const DeclaredOperand& declared = declared_.operands()[operand];
      state.tensors.emplace_back(declared.dtype, declared.device);
    }
  }
  for (size_t i = 0; i < tensor_operands_.size(); ++i) {
    if (declared_.operands()[tensor_operands_[i]].opaque) continue;
    const ng_buffer& buffer = call->buffers[tensor_operands_[i]];
    const auto rank = static_cast<size_t>(buffer.rank);
    state.tensors[i].set_shape({buffer.sizes, rank}, {buffer.strides, rank});
  }
}

Reference PythonTask::make_arguments(PythonState& state, const ng_call* call) const {
  const size_t tensors = tensor_operands_.size();
  Reference arguments = checked(PyTuple_New(static_cast<Py_ssize_t>(tensors + scalar_kinds_.size())));
  for (size_t i = 0; i < tensors; ++i) {
    const ng_buffer& buffer = call->buffers[tensor_operands_[i]];
    at::Tensor tensor;
    if (declared_.operands()[tensor_operands_[i]].opaque) {
      auto* impl = static_cast<c10::TensorImpl*>(buffer.object);
      tensor = at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(impl));
    } else {
      state.tensors[i].point_to(buffer.data);
      tensor = state.tensors[i].alias();
    }
    PyTuple_SET_ITEM(arguments.get(), i, checked(THPVariable_Wrap(std::move(tensor))).release());
  }
  for (size_t i = 0; i < scalar_kinds_.size(); ++i) {
    const ng_scalar value = call->scalars[i];
    PyObject* item = scalar_kinds_[i] == ScalarKind::kFloat  ? PyFloat_FromDouble(value.f)
                     : scalar_kinds_[i] == ScalarKind::kBool ? PyBool_FromLong(value.i != 0)
                                                             : PyLong_FromLongLong(value.i);
    PyTuple_SET_ITEM(arguments.get(), tensors + i, checked(item).release());
  }
  return arguments;
}

void PythonTask::store_result(ng_call* call, Reference item, size_t number, size_t& symbols) const {
  PyObject* object = item.get();
  if (THPVariable_Check(object)) {
    if (!declared_.keeps(number)) return;
    at::Tensor tensor = THPVariable_Unpack(object);
    item.reset();  // it counts as a holder of the tensor
    declared_.store(call, number, std::move(tensor), nullptr);
  } else if (PyBool_Check(object)) {
    declared_.store_symbol(call, symbols++, object == Py_True);
  } else if (PyLong_Check(object)) {
    const long long value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred() != nullptr) throw_python_error();
    declared_.store_symbol(call, symbols++, static_cast<int64_t>(value));
  } else if (PyFloat_Check(object)) {
    declared_.store_symbol(call, symbols++, PyFloat_AS_DOUBLE(object));
  } else if (object != Py_None) {
    throw UserError(cat(declared_.name(), " returned a ", Py_TYPE(object)->tp_name,
                        "; allowed are tensors, numbers and None, alone or in a list or tuple"));
  }
}

void PythonTask::store_results(ng_call* call, Reference returned) const {
  size_t symbols = 0;
  if (!PyTuple_Check(returned.get()) && !PyList_Check(returned.get())) {
    store_result(call, std::move(returned), 0, symbols);
    return;
  }
  // A tensor that a sequence still holds when it is stored would have to be copied.
  const Reference items = checked(PySequence_List(returned.get()));
  returned.reset();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    Reference item(PyList_GET_ITEM(items.get(), i));
    PyList_SET_ITEM(items.get(), i, Py_NewRef(Py_None));
    store_result(call, std::move(item), static_cast<size_t>(i), symbols);
  }
}

void PythonTask::run(PythonState& state, ng_call* call) const {
  const Gil gil;
  const at::NoGradGuard no_grad;
  const TaskScope scope(declared_.name());
  Reference arguments = make_arguments(state, call);
  Reference returned = checked(PyObject_Call(callable_, arguments.get(), nullptr));
  arguments.reset();
  store_results(call, std::move(returned));
}

void PythonTask::finish(PythonState& state, const ng_call* call) const noexcept {
  for (BorrowedTensor& tensor : state.tensors) count_copied(call, tensor.leave_copy_to_keepers());
}

}  // namespace

ng_task build_python_task(const program::Program& program, const program::Task& task) {
  const Gil gil;
  Reference callable;
  {
    const std::lock_guard lock(callable_table().mutex);
    const auto found = callable_table().callables.find(task.callable);
    if (found == callable_table().callables.end()) {
      throw UserError(
          cat("Python callable ", task.callable, " of ", task.name, " (", task.source, ") is not registered"));
    }
    Py_INCREF(found->second);
    callable.reset(found->second);
  }
  auto context = std::make_unique<PythonTask>(program, task, std::move(callable));
  return task_of<PythonState>(std::move(context));
}

int32_t register_callable(void* python_object) {
  const Gil gil;
  auto* object = static_cast<PyObject*>(python_object);
  Py_INCREF(object);
  const std::lock_guard lock(callable_table().mutex);
  callable_table().callables.emplace(callable_table().next_id, object);
  return callable_table().next_id++;
}

void unregister_callable(int32_t id) {
  unregister_nested(id);
  const Gil gil;
  Reference dropped;  // destroyed after the lock is released: dropping a callable may run Python code
  const std::lock_guard lock(callable_table().mutex);
  if (const auto found = callable_table().callables.find(id); found != callable_table().callables.end()) {
    dropped.reset(found->second);
    callable_table().callables.erase(found);
  }
}

}  // namespace npugraph::bridge
