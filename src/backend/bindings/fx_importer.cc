// SPDX-License-Identifier: Apache-2.0
// Reads FX nodes (Python objects) and describes them to frontend::Importer. One FxImporter per graph; needs the GIL.

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pybind11/complex.h>
#include <pybind11/stl.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include "backend/bindings/init.h"
#include "backend/bridge/convert.h"
#include "backend/bridge/host_device.h"
#include "base/error.h"
#include "frontend/importer.h"
#include "ops/operators.h"
#include "ops/table.h"

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

using frontend::NodeDescription;
using frontend::TensorDescription;

namespace {

bool is_fx_node(py::handle value) {
  static PyObject* node_type = py::object(py::module_::import("torch.fx").attr("Node")).release().ptr();
  return Py_TYPE(value.ptr()) == reinterpret_cast<PyTypeObject*>(node_type);
}

bool is_symbolic(py::handle value) {
  return py::isinstance(value, torch::get_symint_class()) || py::isinstance(value, torch::get_symfloat_class()) ||
         py::isinstance(value, torch::get_symbool_class());
}

// Whether the operator is registered with torch.fx as one whose calls are kept even if their results are unused.
bool has_side_effect(py::handle op_overload) {
  return py::module_::import("torch.fx.node").attr("_side_effectful_functions").contains(op_overload);
}

// Traits that torch states by tags instead of in the schema.
ir::Traits traits_of_tags(py::handle op_overload) {
  ir::Traits traits = 0;
  for (const py::handle tag : op_overload.attr("tags")) {
    const auto name = py::cast<std::string>(tag.attr("name"));
    if (name == "pointwise") traits |= static_cast<ir::Traits>(ir::Trait::kElementwise);
    if (name == "nondeterministic_seeded") traits |= static_cast<ir::Traits>(ir::Trait::kRandom);
    if (name == "reduction") traits |= static_cast<ir::Traits>(ir::Trait::kReduction);
  }
  return traits;
}

// The value that the front end computed for the node: a fake tensor, a symbolic scalar, or a list of these.
py::object value_of(py::handle node) {
  const py::dict meta = node.attr("meta");
  return meta.contains("val") ? py::object(meta["val"]) : py::object(py::none());
}

ir::InputKind parse_input_kind(const std::string& kind) {
  if (kind == "user") return ir::InputKind::kUser;
  if (kind == "parameter") return ir::InputKind::kParameter;
  if (kind == "buffer") return ir::InputKind::kBuffer;
  if (kind == "static") return ir::InputKind::kStatic;
  throw UserError(cat("unknown input kind \"", kind, "\"; user, parameter, buffer and static exist"));
}

}  // namespace

FxImporter::FxImporter(std::string name, py::function expr_of)
    : importer_(std::move(name), ops::registry()), expr_of_(std::move(expr_of)) {}

void FxImporter::add_symbol(std::string name, ScalarKind kind, int64_t min, int64_t max) {
  importer_.add_symbol({.name = std::move(name), .kind = kind, .min = min, .max = max});
}

void FxImporter::set_sections(
    const std::vector<std::tuple<int32_t, std::vector<int32_t>, int32_t, int32_t>>& sections) {
  std::vector<ir::Section> read;
  for (const auto& [stream, after, cube, vector] : sections) {
    read.push_back({.stream = stream, .after = after, .limits = {.cube = cube, .vector = vector}});
  }
  importer_.set_sections(std::move(read));
}

Expr FxImporter::expr_of(py::handle value) const { return py::cast<Expr>(expr_of_(value)); }

TensorDescription FxImporter::describe(const at::Tensor& tensor) const {
  TensorDescription described;
  // Tensors of other devices than these have no memory that a task could see: operators pass them on as objects.
  const bool on_device = tensor.key_set().has_backend(c10::BackendComponent::PrivateUse1Bit);
  if (on_device ? !bridge::is_host_device(tensor.device())
                : !tensor.key_set().has_backend(c10::BackendComponent::CPUBit)) {
    described.type = ir::OpaqueType{cat(tensor.device(), " ", tensor.layout(), " ", tensor.scalar_type())};
    return described;
  }
  const auto dtype = bridge::from_torch(tensor.scalar_type());
  if (tensor.layout() != at::kStrided || !dtype || tensor.is_quantized() || tensor.is_nested()) {
    described.type = ir::OpaqueType{cat(tensor.layout(), " ", tensor.scalar_type())};
    return described;
  }
  const auto read = [&](const c10::SymInt& size) {
    if (const auto known = size.maybe_as_int()) return Expr(*known);
    return expr_of(py::cast(size));
  };
  ir::TensorType type;
  type.dtype = *dtype;
  if (on_device) type.device = bridge::from_torch(tensor.device());
  for (const c10::SymInt& size : tensor.sym_sizes()) type.sizes.push_back(read(size));
  for (const c10::SymInt& stride : tensor.sym_strides()) type.strides.push_back(read(stride));
  described.type = std::move(type);
  described.storage_offset = read(tensor.sym_storage_offset());
  described.storage = reinterpret_cast<uint64_t>(tensor.storage().unsafeGetStorageImpl());
  return described;
}

void FxImporter::add_input(py::handle node, const at::Tensor& value, const std::string& kind, std::string source) {
  const auto id = importer_.add_input(describe(value), py::cast<std::string>(node.attr("name")), parse_input_kind(kind),
                                      std::move(source));
  bindings_[node.ptr()] = {.items = {{.value = id, .scalar = std::nullopt}}};
}

void FxImporter::add_scalar_input(py::handle node, Expr scalar, std::string source) {
  importer_.add_scalar_input(scalar, std::move(source));
  bind_scalar(node, std::move(scalar));
}

void FxImporter::add_constant(py::handle node, const at::Tensor& tensor, bool derived) {
  auto data = std::make_shared<const ir::ConstantData>(bridge::constant_of(tensor.detach()));
  const auto id =
      importer_.add_constant(describe(tensor), py::cast<std::string>(node.attr("name")), std::move(data), derived);
  bindings_[node.ptr()] = {.items = {{.value = id, .scalar = std::nullopt}}};
}

void FxImporter::bind_scalar(py::handle node, Expr value) {
  bindings_[node.ptr()] = {.items = {{.scalar = std::move(value)}}};
}

const FxImporter::Binding& FxImporter::binding(py::handle node) const {
  const auto at = bindings_.find(node.ptr());
  if (at == bindings_.end()) {
    throw Refused{cat("reads ", py::cast<std::string>(node.attr("name")), ", which is neither a tensor nor a number")};
  }
  return at->second;
}

const FxImporter::Target& FxImporter::target_of(py::handle op_overload) {
  Target& target = targets_[op_overload.ptr()];
  if (target.op == nullptr) {
    target.schema = py::cast<std::string>(py::str(op_overload.attr("_schema")));
    target.traits = traits_of_tags(op_overload);
    if (bridge::is_foreign(py::cast<std::string>(op_overload.attr("namespace"))))
      target.traits |= static_cast<ir::Traits>(ir::Trait::kForeign);
    // An operator that returns nothing is called for its side effect.
    const bool returns = py::len(op_overload.attr("_schema").attr("returns")) != 0;
    if (!returns || has_side_effect(op_overload)) target.traits |= static_cast<ir::Traits>(ir::Trait::kSideEffect);
    target.op = &importer_.op_for(target.schema, target.traits);
  }
  return target;
}

Attr FxImporter::read_list(py::handle value, const std::string& type) const {
  const auto items = py::reinterpret_borrow<py::sequence>(value);
  if (type.starts_with("Tensor")) {
    std::vector<TensorRef> tensors;
    for (const py::handle item : items) {
      const Attr read = read_arg(item, "Tensor?");
      tensors.push_back(std::holds_alternative<TensorRef>(read) ? std::get<TensorRef>(read) : TensorRef{});
    }
    return tensors;
  }
  if (type.starts_with("str")) return py::cast<std::vector<std::string>>(value);
  std::vector<Expr> numbers;
  for (const py::handle item : items) {
    Attr read = read_arg(item, "Scalar");
    if (!std::holds_alternative<Expr>(read)) throw Refused{cat("takes a list of type ", type)};
    numbers.push_back(std::get<Expr>(std::move(read)));
  }
  return numbers;
}

Attr FxImporter::read_item(const Item& item) const {
  if (item.scalar) return *item.scalar;
  if (item.value == ir::kNone) return None{};
  return TensorRef{item.value};
}

Attr FxImporter::read_arg(py::handle value, const std::string& type) const {
  PyObject* object = value.ptr();
  if (value.is_none()) return None{};
  if (is_fx_node(value)) {
    const Binding& bound = binding(value);
    if (!bound.is_list) return read_item(bound.items[0]);
    std::vector<TensorRef> tensors;
    for (const Item& item : bound.items) tensors.push_back({item.value});
    return tensors;
  }
  if (PyBool_Check(object)) return Expr::constant(Scalar::of_bool(object == Py_True));
  if (PyLong_Check(object)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) throw Refused{"takes a number that does not fit 64 bits"};
    return Expr(static_cast<int64_t>(number));
  }
  if (PyFloat_Check(object)) return Expr::constant(Scalar::of_float(PyFloat_AS_DOUBLE(object)));
  if (PyComplex_Check(object)) return py::cast<std::complex<double>>(value);
  if (PyUnicode_Check(object)) return py::cast<std::string>(value);
  if (PyList_Check(object) || PyTuple_Check(object)) return read_list(value, type);
  if (THPDtype_Check(object)) {
    const auto dtype = bridge::from_torch(reinterpret_cast<THPDtype*>(object)->scalar_type);
    if (!dtype) throw Refused{cat("takes the dtype ", py::cast<std::string>(py::str(value)))};
    return *dtype;
  }
  if (THPLayout_Check(object)) return bridge::from_torch(reinterpret_cast<THPLayout*>(object)->layout);
  if (THPMemoryFormat_Check(object))
    return bridge::from_torch(reinterpret_cast<THPMemoryFormat*>(object)->memory_format);
  if (THPDevice_Check(object)) return bridge::from_torch(reinterpret_cast<THPDevice*>(object)->device);
  if (is_symbolic(value)) return expr_of(value);
  throw Refused{cat("takes an argument of type ", Py_TYPE(object)->tp_name)};
}

std::vector<Attr> FxImporter::read_args(py::handle node, const ir::Schema& schema) const {
  const py::tuple args = node.attr("args");
  const py::dict kwargs = node.attr("kwargs");
  if (args.size() > schema.args.size()) throw Refused{"takes more arguments than its schema"};
  std::vector<Attr> read;
  read.reserve(schema.args.size());
  for (size_t i = 0; i < schema.args.size(); ++i) {
    const ir::SchemaArg& arg = schema.args[i];
    if (i < args.size()) {
      read.push_back(read_arg(args[i], arg.type));
    } else if (PyObject* given = PyDict_GetItemString(kwargs.ptr(), arg.name.c_str())) {
      read.push_back(read_arg(given, arg.type));
    } else {
      read.push_back(arg.default_value);
    }
  }
  return read;
}

// Fills item.scalar for a scalar result, describes a tensor.
std::optional<TensorDescription> FxImporter::read_result(py::handle value, Item& item) const {
  PyObject* object = value.ptr();
  if (value.is_none()) return std::nullopt;
  if (THPVariable_Check(object)) return describe(THPVariable_Unpack(object));
  if (py::isinstance<Opaque>(value))
    return TensorDescription{.type = ir::OpaqueType{py::cast<Opaque>(value).what}, .storage_offset = {}};
  if (is_symbolic(value) || PyBool_Check(object) || PyLong_Check(object) || PyFloat_Check(object)) {
    item.scalar = std::get<Expr>(read_arg(value, "Scalar"));
    return std::nullopt;
  }
  throw Refused{cat("returns a value of type ", Py_TYPE(object)->tp_name)};
}

std::optional<std::string> FxImporter::add(py::handle node, NodeDescription description, py::handle value) {
  description.name = py::cast<std::string>(node.attr("name"));
  description.section = section_;
  Binding bound;
  bound.is_list = PyList_Check(value.ptr()) || PyTuple_Check(value.ptr());
  if (bound.is_list) {
    for (const py::handle item : py::reinterpret_borrow<py::sequence>(value)) {
      bound.items.emplace_back();
      description.results.push_back(read_result(item, bound.items.back()));
    }
  } else if (!value.is_none()) {
    bound.items.emplace_back();
    description.results.push_back(read_result(value, bound.items.back()));
  } else {
    bound.items.emplace_back();
  }
  // A node whose only result is a scalar has no values.
  if (!bound.is_list && !description.results.empty() && !description.results[0]) description.results.clear();
  const auto values = importer_.add_node(description);
  if (!values) return importer_.refusal();
  for (size_t i = 0; i < values->size(); ++i) bound.items[i].value = (*values)[i];
  bindings_[node.ptr()] = std::move(bound);
  return std::nullopt;
}

bool FxImporter::bind_item(py::handle node, py::handle base, int64_t index) {
  const auto at = bindings_.find(base.ptr());
  if (at == bindings_.end() || !at->second.is_list) return false;
  const auto& items = at->second.items;
  if (index < 0) index += static_cast<int64_t>(items.size());
  if (index < 0 || index >= static_cast<int64_t>(items.size())) return false;
  Binding bound{.items = {items[index]}};
  bindings_[node.ptr()] = std::move(bound);
  return true;
}

std::optional<std::string> FxImporter::add_operator(py::handle node, std::vector<ir::SymbolDef> defines,
                                                    std::string source) {
  try {
    const Target& target = target_of(node.attr("target"));
    NodeDescription description;
    description.source = std::move(source);
    description.schema = target.schema;
    description.traits = target.traits;
    description.args = read_args(node, target.op->schema);
    description.defines = std::move(defines);
    // Ignores the value of a node without results: a rewrite of the FX graph may have left a meaningless one.
    const bool returns = !target.op->schema.returns.empty();
    return add(node, std::move(description), returns ? value_of(node) : py::none());
  } catch (const Refused& refused) {
    return refused.reason;
  } catch (const UserError& error) {
    return error.what();
  }
}

void FxImporter::add_check(Expr condition, std::string message, std::string source) {
  NodeDescription check;
  check.source = std::move(source);
  check.schema = aten::_assert_scalar::op().schema.text;
  check.args = {std::move(condition), std::move(message)};
  check.section = section_;
  importer_.add_node(check);
}

std::optional<std::string> FxImporter::add_python(py::handle node, const std::string& label,
                                                  const std::vector<py::object>& operands, std::vector<Expr> scalars,
                                                  std::vector<ir::SymbolDef> defines, int32_t callable,
                                                  bool keep_results, bool nested, bool mutates,
                                                  bool counts_from_storage, std::string source) {
  try {
    std::vector<TensorRef> tensors;
    for (const py::object& operand : operands) {
      for (const Item& item : binding(operand).items) tensors.push_back({item.value});
    }
    NodeDescription description;
    description.source = std::move(source);
    const char* tensors_type = mutates ? "Tensor(a!)?[]" : "Tensor?[]";
    description.schema =
        cat(nested ? "nested::" : "python::", label, "(", tensors_type, " tensors, Scalar[] scalars) -> Tensor[]");
    description.traits = ir::Trait::kOpaque | ir::Trait::kMayThrow;
    if (nested) description.traits |= static_cast<ir::Traits>(ir::Trait::kNested);
    description.args = {std::move(tensors), std::move(scalars)};
    description.defines = std::move(defines);
    description.callable = callable;
    description.counts_from_storage = counts_from_storage;
    return add(node, std::move(description), keep_results ? value_of(node) : py::none());
  } catch (const Refused& refused) {
    return refused.reason;
  }
}

void FxImporter::add_outputs(py::handle outputs) {
  for (const py::handle item : py::reinterpret_borrow<py::sequence>(outputs)) {
    Attr read;
    try {
      read = read_arg(item, "Scalar");
    } catch (const Refused& refused) {
      throw UserError(cat("the graph returns something that ", refused.reason));
    }
    if (const auto* tensor = std::get_if<TensorRef>(&read)) {
      importer_.add_output(*tensor);
    } else if (const auto* scalar = std::get_if<Expr>(&read)) {
      importer_.add_output(*scalar);
    } else {
      NG_CHECK(std::holds_alternative<None>(read), "the graph returns a list");
      importer_.add_output(None{});
    }
  }
}

namespace {

ir::SymbolDef make_symbol_def(std::string symbol, ScalarKind kind, int32_t result, int32_t dim) {
  return {.symbol = std::move(symbol), .kind = kind, .result = result, .dim = dim};
}

}  // namespace

void init_fx_importer(py::module_& module) {
  py::class_<ir::SymbolDef>(module, "SymbolDef").def(py::init(&make_symbol_def));
  py::class_<Opaque>(module, "Opaque").def(py::init<std::string>()).def_readonly("what", &Opaque::what);
  py::class_<FxImporter>(module, "FxImporter")
      .def(py::init<std::string, py::function>())
      .def("add_symbol", &FxImporter::add_symbol)
      .def("set_sections", &FxImporter::set_sections)
      .def("enter_section", &FxImporter::enter_section)
      .def("add_input", &FxImporter::add_input)
      .def("add_scalar_input", &FxImporter::add_scalar_input)
      .def("add_constant", &FxImporter::add_constant)
      .def("bind_scalar", &FxImporter::bind_scalar)
      .def("bind_item", &FxImporter::bind_item)
      .def("add_check", &FxImporter::add_check)
      .def("add_operator", &FxImporter::add_operator)
      .def("add_python", &FxImporter::add_python)
      .def("add_outputs", &FxImporter::add_outputs)
      .def("names_places", &FxImporter::names_places)
      .def("finish", &FxImporter::finish);
}

}  // namespace npugraph::bindings
