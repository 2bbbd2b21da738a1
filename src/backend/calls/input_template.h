// SPDX-License-Identifier: Apache-2.0
// Finds the inputs of a graph in the few objects that its function was given: tensors, caches of keys and values, the
// model.
//
// The path to an input (`.layers[0].keys`) is walked when its object is first seen; later calls only check whether
// anything on the path has changed, by the version number that Python keeps in each dict until 3.13. If that is
// impossible (properties, objects without weak references, later versions of Python), paths are walked at each call.
//
// Used under the GIL. Keeps the model alive, and other objects only until release().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <torch/csrc/utils/pybind.h>

namespace npugraph::calls {

// One step of a path: an attribute, or an item of a dict, list or tuple.
struct PathStep {
  bool is_attribute = false;
  pybind11::object key;
};

struct InputPath {
  static constexpr int64_t kModel = -1;
  int64_t root = kModel;  // index of the function's argument
  std::vector<PathStep> steps;
  // For a scalar, the property of the tensor at the path: ("size", dim), ("stride", dim) or ("storage_offset", 0).
  std::optional<std::pair<std::string, int64_t>> query;
};

class InputTemplate {
 public:
  // `names` of the arguments, in order. `model` may be None when no path begins there.
  InputTemplate(std::string function, std::vector<std::string> names, std::vector<InputPath> paths,
                pybind11::object model);
  InputTemplate(const InputTemplate&) = delete;
  InputTemplate& operator=(const InputTemplate&) = delete;

  // Returns the inputs in order, valid until release(). TypeError for wrong arguments; exceptions that walking a path
  // raises pass through.
  std::span<PyObject* const> find(std::span<PyObject* const> positional, PyObject* const* named, PyObject* names);
  void release();
  int traverse(visitproc visit, void* arg) const;

 private:
  // The version of a dict when it was read: of the attribute dict at *slot, or of `dict` itself if `slot` is null.
  struct DictState {
    PyObject** slot = nullptr;
    PyObject* dict = nullptr;
    uint64_t version = 0;
  };
  struct ListState {
    PyObject* list = nullptr;
    Py_ssize_t index = 0;
    PyObject* item = nullptr;
  };
  // All references are borrowed: a state is checked only after everything on the path to it has been found unchanged.
  struct Seen {
    DictState dict;
    ListState list;
  };
  struct Root {
    std::vector<size_t> inputs;  // inputs whose paths are walked from here
    pybind11::object alive;      // a weak reference to the object seen last, or the model
    PyObject* object = nullptr;  // null until a walk is complete
    std::vector<Seen> seen;
    bool known = false;  // whether `seen` covers every step
  };

  void bind(std::span<PyObject* const> positional, PyObject* const* named, PyObject* names);
  bool unchanged(const Root& root) const;
  static void fetch(const Seen& seen);
  static bool is_same(const Seen& seen);
  void walk(Root& root, PyObject* object);
  void walk_input(Root& root, size_t input, PyObject* object);
  PyObject* step(Root& root, PyObject* object, const PathStep& step);
  PyObject* hold(PyObject* owned);
  // The place for the object at the end of a path: a tensor with a query is not an input itself.
  PyObject*& found(size_t input) { return paths_[input].query ? queried_[input] : inputs_[input]; }
  void answer_queries();
  [[noreturn]] void refuse(const std::string& what) const;

  const std::string function_;
  const std::vector<std::string> names_;
  std::vector<pybind11::str> interned_;  // of names_
  const std::vector<InputPath> paths_;
  std::vector<size_t> whole_;    // inputs that are arguments themselves
  std::vector<size_t> queries_;  // inputs that are scalars
  std::vector<Root> roots_;      // of the arguments, then of the model
  std::vector<PyObject*> arguments_;
  std::vector<PyObject*> inputs_;
  std::vector<PyObject*> queried_;      // per input
  std::vector<pybind11::object> held_;  // until release()
};

}  // namespace npugraph::calls
