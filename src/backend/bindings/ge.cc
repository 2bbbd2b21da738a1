// SPDX-License-Identifier: Apache-2.0
// Models of GE in this process: npugraph._C.ge.
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/bindings/init.h"
#include "backend/bridge/convert.h"
#include "backend/bridge/task_makers.h"
#include "backend/bridge/torch_host.h"
#include "base/error.h"
#include "codegen/matmul/tuned.h"
#include "compiler/artifact.h"
#include "ge/engine/compile.h"
#include "ge/import/import.h"
#include "ge/ir/registry.h"
#include "ge/wire.h"
#include "lower/catalog.h"
#include "ops/table.h"
#include "tensor/format.h"

namespace npugraph::bindings {

namespace {

using compiler::Artifact;
using compiler::CompileRequest;

// The operators of torch that a graph of GE calls: those of users and of Ascend, and those of ATen that it names. All
// others become code of the engine.
class NamedOperators final : public lower::OperatorCatalog {
 public:
  explicit NamedOperators(std::set<std::string, std::less<>> named) : named_(std::move(named)) {}

  std::optional<lower::OutVariant> out_variant(const ir::Op& op) const override {
    return named_.contains(op.name) ? bridge::aten_catalog().out_variant(op) : std::nullopt;
  }
  bool can_run(const ir::Op& op) const override {
    const bool is_called = op.id < 0 || op.is(ir::Trait::kForeign) || named_.contains(op.name);
    return is_called && bridge::aten_catalog().can_run(op);
  }

 private:
  std::set<std::string, std::less<>> named_;
};

// Those for a graph that names these operators. They live as long as the process, because artifacts refer to them.
const NamedOperators& operators_for(const std::set<std::string, std::less<>>& named) {
  static std::mutex mutex;
  static std::map<std::set<std::string, std::less<>>, NamedOperators> known;
  const std::lock_guard lock(mutex);
  return known.try_emplace(named, named).first->second;
}

std::string schema_of_torch(std::string_view name) {
  const auto op = bridge::find_operator(name);
  return op ? c10::toString(op->schema()) : "";
}

// The first graph of a serialised model for tensors of `device`, with these options of the engine.
std::shared_ptr<Artifact> compile_model(const py::bytes& model_def, CompileRequest request, const c10::Device& device,
                                        const ge::EngineOptions& options) {
  auto bytes = std::make_shared<const std::string>(model_def);
  const py::gil_scoped_release release;
  std::vector<compiler::PhaseTime> phases;
  std::set<std::string, std::less<>> named;
  const auto noting = [&](std::string_view name) {
    std::string schema = schema_of_torch(name);
    if (!schema.empty()) named.insert(ops::parse_schema(schema).name);
    return schema;
  };
  ir::Graph graph = run_phase(phases, "ge import", [&] {
    const ge::Model model = ge::parse_model(std::as_bytes(std::span(*bytes)), bytes, "the serialised ModelDef");
    const ge::GraphDef& def = ge::graph_of(model);
    return ge::import_graph(model, def, bridge::from_torch(device),
                            {.host = noting,
                             .dump = ge::dump_of(options, def.name, device.has_index() ? device.index() : 0),
                             .limits = ge::core_limits(options)});
  });
  request.generate = true;
  request.super_kernels.merges = true;
  ge::apply_levels(options, request);
  const compiler::CompileHost host{
      .catalog = &operators_for(named), .make_task = bridge::make_task, .facts = bridge::torch_facts()};
  return std::make_shared<Artifact>(std::move(graph), std::move(request), host, bridge::TorchHost::instance(),
                                    std::vector<compiler::Partition>{}, std::move(phases));
}

constexpr const char* arity_name(ge::Arity arity) {
  constexpr const char* kNames[] = {"required", "optional", "dynamic"};
  return kNames[static_cast<size_t>(arity)];
}

// None, or (inputs, outputs, attributes, text) of an operator of Ascend IR.
py::object find_operator(const std::string& name) {
  const ge::IrOperator* op = ge::find_operator(name);
  if (op == nullptr) return py::none();
  const auto tensors = [](const std::vector<ge::IrTensor>& all) {
    py::list list;
    for (const ge::IrTensor& tensor : all)
      list.append(py::make_tuple(tensor.name, arity_name(tensor.arity), tensor.types));
    return list;
  };
  py::list attributes;
  for (const ge::IrAttr& attr : op->attrs)
    attributes.append(py::make_tuple(attr.name, ge::name_of(attr.kind), attr.required, attr.default_text));
  return py::make_tuple(tensors(op->inputs), tensors(op->outputs), attributes, op->text);
}

// What tuning of graphs asks about products; blocks are texts of the file of tuned products.
void init_tuned(py::module_& ge) {
  using codegen::TunedProducts;
  const auto blocks_of = [](const std::string& text) {
    const auto blocks = codegen::parse_blocks(text);
    if (!blocks) throw UserError(cat("no blocks of a product: ", text));
    return *blocks;
  };
  ge.def("tuned_path", [] { return TunedProducts::instance().path(); });
  ge.def("note_products", [] { TunedProducts::instance().start(); });
  ge.def("noted_products", [] {
    py::list products;
    for (const codegen::PlannedProduct& product : TunedProducts::instance().stop()) {
      py::list blocks;
      for (const codegen::MatmulBlocks& candidate : product.blocks) blocks.append(codegen::print(candidate));
      products.append(py::make_tuple(product.key, blocks, product.tuned));
    }
    return products;
  });
  ge.def(
      "choose_product",
      [=](const std::string& key, const std::optional<std::string>& blocks) {
        TunedProducts::instance().choose(key, blocks ? std::optional(blocks_of(*blocks)) : std::nullopt);
      },
      py::arg("key"), py::arg("blocks"));
  ge.def(
      "keep_product",
      [=](const std::string& key, const std::string& blocks) {
        TunedProducts::instance().keep(key, blocks_of(blocks));
      },
      py::arg("key"), py::arg("blocks"));
}

}  // namespace

void init_ge(py::module_& module) {
  py::module_ ge = module.def_submodule("ge", "Models of Ascend's graph engine.");
  py::list formats;
  for (const Format& row : kFormats) formats.append(py::make_tuple(row.name, row.code));
  ge.attr("FORMATS") = formats;
  ge.def("compile", &compile_model, py::arg("model_def"), py::arg("request"), py::arg("device"),
         py::arg("options") = ge::EngineOptions());
  ge.def("find_operator", &find_operator, py::arg("name"));
  ge.def("add_operator", &ge::add_operator, py::arg("line"));
  ge.def("operator_names", &ge::operator_names);
  ge.def("imported_types", &ge::imported_types);
  init_tuned(ge);
}

}  // namespace npugraph::bindings
