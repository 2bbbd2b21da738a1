// SPDX-License-Identifier: Apache-2.0
#include "backend/calls/input_template.h"

#include <algorithm>
#include <utility>

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_numbers.h>

#include "base/error.h"
#include "base/words.h"

namespace npugraph::calls {

namespace py = pybind11;

namespace {

constexpr size_t kDictsAhead = 12;  // distance in entries between prefetching a dict and comparing its version

// Python 3.12 calls the version number of dicts deprecated, and changes it as before. 3.13 does not change it where the
// values of attributes lie in their object. 3.14 has none.
#if PY_VERSION_HEX < 0x030d0000
constexpr bool kDictsCountVersions = true;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
uint64_t version_of(PyObject* dict) { return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag; }
#pragma GCC diagnostic pop
#else
constexpr bool kDictsCountVersions = false;
uint64_t version_of(PyObject*) { return 0; }
#endif

// The slot of an object's attribute dict, if that holds `value` under `key` and no data descriptor of the class takes
// precedence; else null.
PyObject** slot_of_attribute(PyObject* object, PyObject* key, PyObject* value) {
  PyObject* of_class = _PyType_Lookup(Py_TYPE(object), key);
  if (of_class != nullptr && Py_TYPE(of_class)->tp_descr_set != nullptr) return nullptr;
  if (_PyObject_GetDictPtr(object) == nullptr) return nullptr;
  // Creates the dict if the attributes are stored without one.
  const auto dict = py::reinterpret_steal<py::object>(PyObject_GenericGetDict(object, nullptr));
  PyObject** slot = _PyObject_GetDictPtr(object);
  if (!dict || slot == nullptr || *slot != dict.ptr()) {
    PyErr_Clear();
    return nullptr;
  }
  return PyDict_GetItem(dict.ptr(), key) == value ? slot : nullptr;
}

}  // namespace

InputTemplate::InputTemplate(std::string function, std::vector<std::string> names, std::vector<InputPath> paths,
                             py::object model)
    : function_(std::move(function)), names_(std::move(names)), paths_(std::move(paths)) {
  roots_.resize(names_.size() + 1);
  arguments_.resize(names_.size());
  inputs_.resize(paths_.size());
  queried_.resize(paths_.size());
  for (const std::string& name : names_)
    interned_.push_back(py::reinterpret_steal<py::str>(PyUnicode_InternFromString(name.c_str())));
  for (size_t i = 0; i < paths_.size(); ++i) {
    const InputPath& path = paths_[i];
    const size_t root = path.root == InputPath::kModel ? names_.size() : static_cast<size_t>(path.root);
    if (root > names_.size()) throw UserError(cat("input ", i, " begins at an argument that there is not"));
    if (path.steps.empty() && root < names_.size()) {
      whole_.push_back(i);
    } else {
      roots_[root].inputs.push_back(i);
    }
    if (path.query) queries_.push_back(i);
  }
  roots_.back().alive = std::move(model);
}

std::span<PyObject* const> InputTemplate::find(std::span<PyObject* const> positional, PyObject* const* named,
                                               PyObject* names) {
  bind(positional, named, names);
  for (const size_t input : whole_) found(input) = arguments_[paths_[input].root];
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (!roots_[i].inputs.empty() && (roots_[i].object != arguments_[i] || !unchanged(roots_[i])))
      walk(roots_[i], arguments_[i]);
  }
  Root& model = roots_.back();
  if (!model.inputs.empty() && !unchanged(model)) walk(model, model.alive.ptr());
  if (!queries_.empty()) answer_queries();
  return inputs_;
}

void InputTemplate::release() { held_.clear(); }

int InputTemplate::traverse(visitproc visit, void* arg) const {
  Py_VISIT(roots_.back().alive.ptr());
  return 0;
}

// Assigns the arguments to parameters by position and name, as Python does.
void InputTemplate::bind(std::span<PyObject* const> positional, PyObject* const* named, PyObject* names) {
  if (positional.size() > names_.size())
    refuse(cat("takes ", counted(names_.size(), "argument"), ", got ", positional.size()));
  std::ranges::fill(arguments_, nullptr);
  std::ranges::copy(positional, arguments_.begin());
  const Py_ssize_t count = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    // Names in calls are usually interned, as those of interned_ are; others are compared by their text.
    const auto at = std::ranges::find_if(interned_, [&](const py::str& known) {
      return known.ptr() == name || PyUnicode_Compare(known.ptr(), name) == 0;
    });
    const std::string text = py::cast<std::string>(py::handle(name));
    if (at == interned_.end()) refuse(cat("has no argument '", text, "'"));
    PyObject*& argument = arguments_[at - interned_.begin()];
    if (argument != nullptr) refuse(cat("got '", text, "' twice"));
    argument = named[i];
  }
  const auto missing = std::ranges::find(arguments_, nullptr);
  if (missing != arguments_.end()) refuse(cat("misses '", names_[missing - arguments_.begin()], "'"));
}

void InputTemplate::refuse(const std::string& what) const {
  std::string all;
  for (const std::string& name : names_) all += cat(all.empty() ? "" : ", ", name);
  throw py::type_error(cat(function_, "(", all, ") ", what));
}

bool InputTemplate::unchanged(const Root& root) const {
  if (!root.known || root.object == nullptr) return false;
  if (&root != &roots_.back() && PyWeakref_GET_OBJECT(root.alive.ptr()) != root.object) return false;
  const size_t count = root.seen.size();
  for (size_t i = 0; i < count; ++i) {
    if (i + kDictsAhead < count) fetch(root.seen[i + kDictsAhead]);
    if (!is_same(root.seen[i])) return false;
  }
  return true;
}

// Prefetches what is_same() reads, since most of it is not cached.
void InputTemplate::fetch(const Seen& seen) {
  __builtin_prefetch(seen.dict.dict);
  __builtin_prefetch(seen.dict.slot);
}

bool InputTemplate::is_same(const Seen& seen) {
  if (seen.dict.dict != nullptr) {
    if (seen.dict.slot != nullptr && *seen.dict.slot != seen.dict.dict) return false;
    return version_of(seen.dict.dict) == seen.dict.version;
  }
  return seen.list.index < PyList_GET_SIZE(seen.list.list) &&
         PyList_GET_ITEM(seen.list.list, seen.list.index) == seen.list.item;
}

void InputTemplate::walk(Root& root, PyObject* object) {
  root.seen.clear();
  root.object = nullptr;  // until every path was walked: one may raise
  root.known = kDictsCountVersions;
  if (&root != &roots_.back()) {
    root.alive = py::reinterpret_steal<py::object>(PyWeakref_NewRef(object, nullptr));
    if (!root.alive) {
      PyErr_Clear();
      root.known = false;
    }
  }
  for (const size_t input : root.inputs) walk_input(root, input, object);
  root.object = object;
}

void InputTemplate::walk_input(Root& root, size_t input, PyObject* object) {
  for (const PathStep& next : paths_[input].steps) object = step(root, object, next);
  found(input) = object;
}

// Returns the object that the step leads to, held until release().
PyObject* InputTemplate::step(Root& root, PyObject* object, const PathStep& step) {
  PyObject* key = step.key.ptr();
  if (step.is_attribute) {
    PyObject* value = hold(PyObject_GetAttr(object, key));
    PyObject** slot = slot_of_attribute(object, key, value);
    if (slot == nullptr) {
      root.known = false;
    } else if (std::ranges::none_of(root.seen, [&](const Seen& seen) { return seen.dict.slot == slot; })) {
      root.seen.push_back({.dict = {slot, *slot, version_of(*slot)}});
    }
    return value;
  }
  PyObject* value = hold(PyObject_GetItem(object, key));
  if (PyDict_Check(object)) {
    const auto same = [&](const Seen& seen) { return seen.dict.slot == nullptr && seen.dict.dict == object; };
    if (PyDict_GetItem(object, key) != value) root.known = false;  // a subclass with its own lookup
    if (std::ranges::none_of(root.seen, same)) root.seen.push_back({.dict = {nullptr, object, version_of(object)}});
  } else if (PyList_CheckExact(object)) {
    const Py_ssize_t index = PyLong_AsSsize_t(key);
    root.seen.push_back({.list = {object, index < 0 ? index + PyList_GET_SIZE(object) : index, value}});
  } else if (!PyTuple_CheckExact(object)) {
    root.known = false;
  }
  return value;
}

PyObject* InputTemplate::hold(PyObject* owned) {
  if (owned == nullptr) throw py::error_already_set();
  held_.push_back(py::reinterpret_steal<py::object>(owned));
  return owned;
}

void InputTemplate::answer_queries() {
  for (const size_t input : queries_) {
    const InputPath& path = paths_[input];
    const auto& [what, dim] = *path.query;
    PyObject* object = queried_[input];
    if (!THPVariable_Check(object)) {
      const std::string place = path.root == InputPath::kModel ? "the model" : names_[path.root];
      refuse(cat("takes a tensor ", path.steps.empty() ? "for " : "in ", place, ", got a ", Py_TYPE(object)->tp_name));
    }
    const at::Tensor& tensor = THPVariable_Unpack(object);
    if (dim >= tensor.dim() && what != "storage_offset")
      refuse(cat("takes a tensor of more than ", dim, " dimensions, got ", tensor.dim()));
    const int64_t value = what == "size"     ? tensor.size(dim)
                          : what == "stride" ? tensor.stride(dim)
                                             : tensor.storage_offset();
    inputs_[input] = hold(THPUtils_packInt64(value));
  }
}

}  // namespace npugraph::calls
