// SPDX-License-Identifier: Apache-2.0
#include "backend/bindings/callable.h"

#include <utility>

#include <structmember.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/object_ptr.h>

#include "backend/bindings/init.h"
#include "backend/bridge/torch_host.h"
#include "base/error.h"
#include "runtime/threads/worker_pool.h"

namespace npugraph::bindings {

namespace {

PyObject* inputs_overlap_error = nullptr;
PyObject* input_elsewhere_error = nullptr;
PyTypeObject* callable_type = nullptr;

struct CallableObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* weak_references;
  PyObject* attributes;
  calls::CompiledFunction* call;
};

// Returns use(call), or null with what it throws set as a Python exception. Holds a reference to the callable, because
// the call may drop the last other one.
template <typename Use>
PyObject* with_call(PyObject* self, const Use& use) {
  HANDLE_TH_ERRORS
  try {
    const THPObjectPtr keep(Py_NewRef(self));
    return use(*reinterpret_cast<CallableObject*>(self)->call);
  } catch (const UserError& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
    return nullptr;
  } catch (const calls::MisplacedInput& error) {
    PyErr_SetString(error.overlaps() ? inputs_overlap_error : input_elsewhere_error, error.what());
    return nullptr;
  } catch (const pybind11::builtin_exception& error) {
    error.set_error();
    return nullptr;
  }
  END_HANDLE_TH_ERRORS
}

// Passes the current exception to npugraph.error_notes, unless it is one that npugraph's own callers catch.
void note_error(PyObject* self) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const std::string place = calls::take_place_of_failure();
  const bool is_ours = PyErr_GivenExceptionMatches(type, inputs_overlap_error) != 0 ||
                       PyErr_GivenExceptionMatches(type, input_elsewhere_error) != 0;
  if (!is_ours && PyErr_GivenExceptionMatches(type, PyExc_Exception) != 0) {
    PyErr_NormalizeException(&type, &value, &traceback);
    try {
      const std::string& name = reinterpret_cast<CallableObject*>(self)->call->name();
      const auto backend = pybind11::getattr(self, "backend", pybind11::none());
      pybind11::module_::import("npugraph.error_notes").attr("add_note")(pybind11::handle(value), backend, name, place);
    } catch (pybind11::error_already_set& error) {
      error.discard_as_unraisable("npugraph's note of an error");
    }
  }
  PyErr_Restore(type, value, traceback);
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  const THPObjectPtr keep(Py_NewRef(self));
  PyObject* result = with_call(self, [&](calls::CompiledFunction& call) {
    ensure_counters();
    return call.run(args, PyVectorcall_NARGS(flags), names);
  });
  if (result == nullptr) [[unlikely]]
    note_error(self);
  return result;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<CallableObject*>(self)->attributes);
  return reinterpret_cast<CallableObject*>(self)->call->traverse(visit, arg);
}

int clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<CallableObject*>(self)->attributes);
  reinterpret_cast<CallableObject*>(self)->call->watch(0, {});
  reinterpret_cast<CallableObject*>(self)->call->fall_back_on({});
  return 0;
}

void dealloc(PyObject* self) {
  auto* object = reinterpret_cast<CallableObject*>(self);
  PyObject_GC_UnTrack(self);
  if (object->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  clear(self);
  delete object->call;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* time_tasks(PyObject* self, PyObject* const* args, Py_ssize_t positional, PyObject* names) {
  const long long times = positional > 0 ? PyLong_AsLongLong(args[0]) : 0;
  if (PyErr_Occurred() != nullptr) return nullptr;
  return with_call(self, [&](calls::CompiledFunction& call) {
    if (times <= 0) throw UserError(cat("the number of runs is at least 1, got ", times));
    return PyFloat_FromDouble(call.time_tasks(times, args + 1, static_cast<size_t>(positional - 1), names));
  });
}

PyObject* callable_watch(PyObject* self, PyObject* args) {
  Py_ssize_t index = 0;
  PyObject* hook = nullptr;
  if (PyArg_ParseTuple(args, "nO", &index, &hook) == 0) return nullptr;
  if (index < 0) {
    PyErr_SetString(PyExc_ValueError, "the index of an input is not negative");
    return nullptr;
  }
  reinterpret_cast<CallableObject*>(self)->call->watch(index, pybind11::reinterpret_borrow<pybind11::object>(hook));
  return Py_NewRef(Py_None);
}

PyObject* fall_back_on(PyObject* self, PyObject* fallback) {
  reinterpret_cast<CallableObject*>(self)->call->fall_back_on(pybind11::reinterpret_borrow<pybind11::object>(fallback));
  return Py_NewRef(Py_None);
}

PyObject* forget(PyObject* self, PyObject*) {
  reinterpret_cast<CallableObject*>(self)->call->forget();
  return Py_NewRef(Py_None);
}

PyObject* callable_repr(PyObject* self) {
  return PyUnicode_FromString(
      cat("<npugraph.Callable of ", reinterpret_cast<CallableObject*>(self)->call->name(), ">").c_str());
}

PyMethodDef methods[] = {
    {"time_tasks", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(time_tasks)), METH_FASTCALL | METH_KEYWORDS,
     "time_tasks(times, *args, **kwargs)\n\nNanoseconds of the tasks of such a call alone, the mean of `times` runs. "
     "Each of them writes what a call writes."},
    {"watch", callable_watch, METH_VARARGS,
     "watch(index, hook)\n\nCalls hook(args) at the start of each call whose input `index` is another "
     "object than in the call before."},
    {"fall_back_on", fall_back_on, METH_O,
     "fall_back_on(function)\n\nCalls function(reason, *inputs) where inputs lie in memory as they must not."},
    {"forget", forget, METH_NOARGS,
     "forget()\n\nForgets where inputs were, also parameters that stay where they were first found."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CallableObject, vectorcall), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CallableObject, weak_references), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(CallableObject, attributes), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef properties[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_repr, reinterpret_cast<void*>(callable_repr)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {Py_tp_doc,
     const_cast<char*>(
         "Runs a compiled graph: boxed, f([inputs]), which empties the list; positional, f(*inputs); or "
         "with the arguments in which it finds its inputs. Gives the tuple of its outputs. Takes attributes.")},
    {0, nullptr}};

PyType_Spec spec = {
    "npugraph._C.Callable", sizeof(CallableObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

PyObject* make_callable(std::shared_ptr<runtime::Executable> executable, calls::Arguments arguments,
                        std::unique_ptr<calls::InputTemplate> inputs, std::string label) {
  auto call =
      std::make_unique<calls::CompiledFunction>(std::move(executable), arguments, std::move(inputs), std::move(label));
  auto* object = PyObject_GC_New(CallableObject, callable_type);
  if (object == nullptr) throw pybind11::error_already_set();
  object->vectorcall = vectorcall;
  object->weak_references = nullptr;
  object->attributes = nullptr;
  object->call = call.release();
  auto* made = reinterpret_cast<PyObject*>(object);
  PyObject_GC_Track(made);
  PyObject* boxed = arguments == calls::Arguments::kBoxed ? Py_True : Py_False;
  if (PyObject_SetAttrString(made, "_boxed_call", boxed) != 0) {
    Py_DECREF(made);
    throw pybind11::error_already_set();
  }
  return made;
}

void init_callable(pybind11::module_& module) {
  runtime::WorkerPool::instance().set_team(bridge::torch_team());
  inputs_overlap_error =
      PyErr_NewExceptionWithDoc("npugraph._C.InputsOverlap", "A written input overlaps another one; nothing has run.",
                                PyExc_RuntimeError, nullptr);
  input_elsewhere_error = PyErr_NewExceptionWithDoc("npugraph._C.InputElsewhere",
                                                    "An input lies elsewhere in its storage; nothing has run.",
                                                    PyExc_RuntimeError, nullptr);
  PyObject* type = PyType_FromSpec(&spec);
  if (inputs_overlap_error == nullptr || input_elsewhere_error == nullptr || type == nullptr)
    throw pybind11::error_already_set();
  callable_type = reinterpret_cast<PyTypeObject*>(type);
  module.attr("InputsOverlap") = pybind11::handle(inputs_overlap_error);
  module.attr("InputElsewhere") = pybind11::handle(input_elsewhere_error);
  module.attr("Callable") = pybind11::handle(type);
}

}  // namespace npugraph::bindings
