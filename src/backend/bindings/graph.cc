// SPDX-License-Identifier: Apache-2.0
// A Graph as Python data, for raising it back to FX.
#include "ir/graph.h"

#include <string>
#include <utility>
#include <vector>

#include <pybind11/complex.h>

#include "backend/bindings/init.h"
#include "backend/bridge/convert.h"
#include "ir/text.h"

namespace npugraph::bindings {

namespace {

// A reference to a value of the graph, as it appears among arguments.
struct Ref {
  std::string name;
};

struct ToPython {
  const ir::Graph& graph;

  py::object operator()(const None&) const { return py::none(); }
  py::object operator()(const TensorRef& ref) const {
    return ref.id == TensorRef::kAbsent ? py::object(py::none()) : py::cast(Ref{graph.value(ref.id).name});
  }
  py::object operator()(const Expr& e) const {
    if (!e.is_constant()) return py::cast(e);
    const Scalar value = e.value();
    if (value.kind == ScalarKind::kBool) return py::bool_(value.as_bool());
    if (value.kind == ScalarKind::kFloat) return py::float_(value.as_float());
    return py::int_(value.as_int());
  }
  py::object operator()(DType dtype) const { return py::cast(bridge::to_torch(dtype)); }
  py::object operator()(Layout layout) const { return py::cast(bridge::to_torch(layout)); }
  py::object operator()(MemoryFormat format) const { return py::cast(bridge::to_torch(format)); }
  py::object operator()(const Device& device) const { return py::cast(bridge::to_torch(device)); }
  py::object operator()(const std::string& text) const { return py::str(text); }
  py::object operator()(const std::complex<double>& value) const { return py::cast(value); }
  template <typename T>
  py::object operator()(const std::vector<T>& items) const {
    py::list list;
    for (const T& item : items) list.append((*this)(item));
    return list;
  }
};

py::dict describe_node(const ir::Graph& graph, const ir::Node& node) {
  const ToPython to_python{graph};
  py::dict described;
  py::list args;
  for (size_t i = 0; i < node.args.size(); ++i) {
    const ir::SchemaArg& arg = node.op->schema.args[i];
    args.append(py::make_tuple(arg.name, arg.keyword_only, std::visit(to_python, node.args[i])));
  }
  py::list results;
  py::list types;
  for (const ir::ValueId id : node.results) {
    results.append(id == ir::kNone ? py::object(py::none()) : py::object(py::str(graph.value(id).name)));
    types.append(id == ir::kNone ? std::string() : ir::to_text(graph.value(id).type));
  }
  py::list defines;
  for (const ir::SymbolDef& def : node.defines) defines.append(py::make_tuple(def.symbol, def.result, def.dim));
  const auto& returns = node.op->schema.returns;
  described["op"] = node.op->name;
  described["args"] = args;
  described["results"] = results;
  described["types"] = types;
  described["returns_list"] = returns.size() > 1 || (returns.size() == 1 && returns[0].type.ends_with("[]"));
  described["defines"] = defines;
  described["callable"] = node.callable;
  described["section"] = node.section;
  described["is_view"] = !node.views.empty();
  described["name"] = node.origin.node;
  described["source"] = node.origin.source;
  return described;
}

// As FxImporter::set_sections takes them.
py::list describe_sections(const ir::Graph& graph) {
  py::list sections;
  for (const ir::Section& section : graph.sections) {
    sections.append(py::make_tuple(section.stream, section.after, section.limits.cube, section.limits.vector));
  }
  return sections;
}

py::list describe_nodes(const ir::Graph& graph) {
  py::list nodes;
  for (const ir::NodeId id : graph.order()) {
    if (!graph.node(id).dead) nodes.append(describe_node(graph, graph.node(id)));
  }
  return nodes;
}

py::list describe_inputs(const ir::Graph& graph) {
  const ToPython to_python{graph};
  py::list inputs;
  for (const ir::Input& input : graph.inputs) {
    if (input.value == ir::kNone) {
      inputs.append(py::make_tuple(py::none(), to_python(input.scalar), input.source));
      continue;
    }
    py::object sizes = py::none();
    if (graph.value(input.value).is_tensor()) sizes = to_python(graph.value(input.value).tensor().sizes);
    inputs.append(py::make_tuple(graph.value(input.value).name, sizes, input.source));
  }
  return inputs;
}

at::Tensor constant_tensor(const ir::Value& value, const ir::ConstantData& data) {
  if (!value.is_tensor()) {
    return at::Tensor(c10::intrusive_ptr<at::TensorImpl>::reclaim_copy(static_cast<at::TensorImpl*>(data.owner.get())));
  }
  std::vector<int64_t> sizes, strides;
  for (const Expr& size : value.tensor().sizes) sizes.push_back(size.as_int().value());
  for (const Expr& stride : value.tensor().strides) strides.push_back(stride.as_int().value());
  return bridge::tensor_over(data.data, sizes, strides, value.tensor().dtype, data.owner)
      .to(bridge::to_torch(value.tensor().device));
}

py::list describe_constants(const ir::Graph& graph) {
  py::list constants;
  for (const ir::Constant& constant : graph.constants) {
    constants.append(
        py::make_tuple(graph.value(constant.value).name, constant_tensor(graph.value(constant.value), *constant.data)));
  }
  return constants;
}

py::list describe_outputs(const ir::Graph& graph) {
  const ToPython to_python{graph};
  py::list outputs;
  for (const ir::Output& output : graph.outputs) outputs.append(std::visit(to_python, output));
  return outputs;
}

py::object expr_value(const Expr& e) {
  ir::Graph none;
  return e.is_constant() ? ToPython{none}(e) : py::object(py::none());
}

}  // namespace

void init_graph(py::module_& module) {
  py::class_<Ref>(module, "Ref").def_readonly("name", &Ref::name);
  module.def("expr_value", &expr_value);
  py::class_<ir::Graph>(module, "Graph")
      .def_readonly("name", &ir::Graph::name)
      .def("inputs", &describe_inputs)
      .def("constants", &describe_constants)
      .def("sections", &describe_sections)
      .def("nodes", &describe_nodes)
      .def("outputs", &describe_outputs)
      .def("__str__", &ir::print);
}

}  // namespace npugraph::bindings
