// SPDX-License-Identifier: Apache-2.0
// Reads FX nodes (Python objects) and describes them to frontend::Importer. One FxImporter per graph; needs the GIL.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "frontend/importer.h"

namespace npugraph::bindings {

namespace py = pybind11;

// Stands in a node's meta["val"] for a tensor of which nothing else is known.
struct Opaque {
  std::string what;
};

// Hidden, because pybind11's types, which it holds, are hidden.
class __attribute__((visibility("hidden"))) FxImporter {
 public:
  // `expr_of` turns a torch.SymInt, SymFloat or SymBool into an Expr.
  FxImporter(std::string name, py::function expr_of);

  void add_symbol(std::string name, ScalarKind kind, int64_t min, int64_t max);
  // The graph's sections, each as (stream, earlier sections that it follows, limits of cube and of vector cores).
  void set_sections(const std::vector<std::tuple<int32_t, std::vector<int32_t>, int32_t, int32_t>>& sections);
  // Nodes that are added later belong to this section; initially to the first one.
  void enter_section(int32_t section) { section_ = section; }
  // `value` is the placeholder's fake tensor.
  void add_input(py::handle node, const at::Tensor& value, const std::string& kind, std::string source);
  void add_scalar_input(py::handle node, Expr scalar, std::string source);
  // A real tensor that the graph holds (get_attr).
  void add_constant(py::handle node, const at::Tensor& tensor, bool derived);
  // The node is a symbolic scalar: uses of it become `value`.
  void bind_scalar(py::handle node, Expr value);
  // A call of an OpOverload. Returns None, or why the node was refused; nothing has changed then.
  std::optional<std::string> add_operator(py::handle node, std::vector<ir::SymbolDef> defines, std::string source);
  // The graph fails with `message` if `condition` is false.
  void add_check(Expr condition, std::string message, std::string source);
  // The node is entry `index` of `base`. False when `base` is not a list of tensors and scalars.
  bool bind_item(py::handle node, py::handle base, int64_t index);
  // A call of `callable` (registered) with the tensors of `operands` (nodes), then `scalars`. Without `keep_results`
  // the results stay with the callable: they are neither tensors nor scalars. With `nested` it runs graphs
  // (register_nested), and Python only if the graph is raised to FX. With `mutates` it may write any of its tensors.
  std::optional<std::string> add_python(py::handle node, const std::string& label,
                                        const std::vector<py::object>& operands, std::vector<Expr> scalars,
                                        std::vector<ir::SymbolDef> defines, int32_t callable, bool keep_results,
                                        bool nested, bool mutates, bool counts_from_storage, std::string source);
  void add_outputs(py::handle outputs);
  // Whether some input must have the storage offset that it had at compile time; a call with another one is refused.
  bool names_places() const { return importer_.names_places(); }
  ir::Graph finish() { return importer_.finish(); }

 private:
  // The items that an FX node stands for: one, or several that getitem picks from. An item is a tensor, a scalar, or
  // None.
  struct Item {
    ir::ValueId value = ir::kNone;
    std::optional<Expr> scalar;
  };
  struct Binding {
    std::vector<Item> items;
    bool is_list = false;
  };
  struct Target {
    const ir::Op* op = nullptr;
    std::string schema;
    ir::Traits traits = 0;
  };
  // Thrown internally while a node is read, and turned into the returned reason.
  struct Refused {
    std::string reason;
  };

  const Target& target_of(py::handle op_overload);
  const Binding& binding(py::handle node) const;
  Expr expr_of(py::handle value) const;
  Attr read_arg(py::handle value, const std::string& type) const;
  Attr read_list(py::handle value, const std::string& type) const;
  std::vector<Attr> read_args(py::handle node, const ir::Schema& schema) const;
  Attr read_item(const Item& item) const;
  std::optional<frontend::TensorDescription> read_result(py::handle value, Item& item) const;
  frontend::TensorDescription describe(const at::Tensor& tensor) const;
  std::optional<std::string> add(py::handle node, frontend::NodeDescription description, py::handle value);

  frontend::Importer importer_;
  py::function expr_of_;
  int32_t section_ = 0;
  std::unordered_map<PyObject*, Binding> bindings_;
  std::unordered_map<PyObject*, Target> targets_;
};

}  // namespace npugraph::bindings
