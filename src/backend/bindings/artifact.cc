// SPDX-License-Identifier: Apache-2.0
#include "compiler/artifact.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/bindings/callable.h"
#include "backend/bindings/init.h"
#include "backend/bridge/collective_task.h"
#include "backend/bridge/task_makers.h"
#include "backend/bridge/torch_host.h"
#include "base/env.h"
#include "base/error.h"
#include "codegen/jit/jit.h"
#include "codegen/jit/object_cache.h"
#include "compiler/defect_report.h"
#include "compiler/task_makers.h"
#include "program/program.h"
#include "runtime/observation.h"
#include "runtime/options.h"

namespace npugraph::bindings {

using compiler::Artifact;
using compiler::CompileRequest;
using compiler::Partition;
using compiler::PhaseTime;
using compiler::RunRequest;
using runtime::CaptureRules;

namespace {

// The user's options for captures and the memory of graphs.
void init_capture_rules(py::module_& module) {
  py::class_<CaptureRules>(module, "CaptureRules")
      .def(py::init<>())
      .def_readwrite("use_graph_pool", &CaptureRules::use_graph_pool)
      .def_readwrite("reuse_graph_pool_in_same_fx", &CaptureRules::reuse_graph_pool_in_same_fx)
      .def_readwrite("clone_input", &CaptureRules::clone_input)
      .def_readwrite("clone_output", &CaptureRules::clone_output)
      .def_readwrite("capture_limit", &CaptureRules::capture_limit)
      .def_readwrite("force_recapture", &CaptureRules::force_recapture)
      .def_readwrite("frozen_parameter", &CaptureRules::frozen_parameter)
      .def_property("capture_error_mode", nullptr, [](CaptureRules& rules, const std::string& mode) {
        rules.capture_error_mode = runtime::parse_capture_error_mode(mode);
      });
}

compiler::CompileHost compile_host() {
  return {.catalog = &bridge::aten_catalog(),
          .evaluate = bridge::constant_evaluator(),
          .make_task = bridge::make_task,
          .facts = bridge::torch_facts()};
}

std::shared_ptr<Artifact> compile(ir::Graph& graph, CompileRequest request, std::vector<Partition> partitions,
                                  const std::vector<std::pair<std::string, double>>& front_end) {
  std::vector<PhaseTime> phases;
  for (const auto& [name, milliseconds] : front_end) phases.push_back({name, milliseconds});
  return std::make_shared<Artifact>(std::move(graph), std::move(request), compile_host(), bridge::TorchHost::instance(),
                                    std::move(partitions), std::move(phases));
}

py::dict memory(const Artifact& artifact) {
  const runtime::MemoryInfo info = runtime::Observation(*artifact.executable()).memory();
  py::dict dict;
  dict["arena_bytes"] = info.arena_bytes;
  dict["heap_bytes"] = info.heap_bytes;
  dict["scratch_bytes"] = info.scratch_bytes;
  dict["derived_constant_bytes"] = info.derived_constant_bytes;
  dict["lower_bound_bytes"] = info.lower_bound_bytes;
  dict["live_bytes"] = info.live_bytes;
  dict["copied_bytes_per_replay"] = info.copied_bytes_per_replay;
  dict["bound_bytes_per_call"] = info.bound_bytes_per_call;
  return dict;
}

py::object to_python(const Scalar& scalar) {
  switch (scalar.kind) {
    case ScalarKind::kInt: return py::int_(scalar.as_int());
    case ScalarKind::kFloat: return py::float_(scalar.as_float());
    case ScalarKind::kBool: return py::bool_(scalar.as_bool());
  }
  return py::none();
}

py::list instances(const Artifact& artifact) {
  py::list list;
  for (const runtime::InstanceInfo& info : runtime::Observation(*artifact.executable()).instances()) {
    py::dict symbols;
    for (const auto& [name, value] : info.symbols) symbols[py::str(name)] = to_python(value);
    list.append(py::make_tuple(info.key, symbols, info.captures, info.replays));
  }
  return list;
}

// Each timed run as (nanoseconds, [(start, duration) of each task in nanoseconds]); starts count from that of the run.
std::vector<std::pair<int64_t, std::vector<std::pair<int64_t, int64_t>>>> runs(const Artifact& artifact) {
  std::vector<std::pair<int64_t, std::vector<std::pair<int64_t, int64_t>>>> all;
  for (const runtime::TimedRun& timed : runtime::Observation(*artifact.executable()).timed_runs()) {
    auto& [length, tasks] = all.emplace_back(timed.run.end_ns - timed.run.begin_ns, 0);
    for (const runtime::TimeSpan& task : timed.tasks)
      tasks.emplace_back(task.begin_ns - timed.run.begin_ns, task.end_ns - task.begin_ns);
  }
  return all;
}

// "L['x']: f32[s0, 4]", then ", of the model" and ", written" if they apply.
std::string describe(const program::Program& program, const program::Input& input) {
  if (input.buffer == program::kNone) return cat(input.source, ": a scalar");
  std::string sizes;
  for (const program::Dim& size : input.sizes) sizes += cat(sizes.empty() ? "" : ", ", program.expr(size).str());
  const bool fixed = program.buffers[input.buffer].cls == program::BufferClass::kParameter;
  return cat(input.source, ": ", name_of(input.dtype), "[", sizes, "]", fixed ? ", of the model" : "",
             input.mutated ? ", written" : "");
}

py::object callable_of(std::shared_ptr<runtime::Executable> executable, bool boxed) {
  const calls::Arguments arguments = boxed ? calls::Arguments::kBoxed : calls::Arguments::kPositional;
  return py::reinterpret_steal<py::object>(make_callable(std::move(executable), arguments));
}

// Description and source of each input.
std::vector<std::pair<std::string, std::string>> inputs_of(const program::Program& program) {
  std::vector<std::pair<std::string, std::string>> inputs;
  for (const program::Input& input : program.inputs) inputs.emplace_back(describe(program, input), input.source);
  return inputs;
}

// A function with the arguments `names`. Each path is (root, [(is_attribute, key), ...], query). `label` names its
// calls in profiler traces; empty: no name.
py::object bind(const Artifact& owner, std::vector<std::string> names, const py::list& paths, py::object model,
                std::string label) {
  std::shared_ptr<runtime::Executable> executable = owner.executable();
  std::vector<calls::InputPath> read;
  for (const py::handle item : paths) {
    const auto path = py::reinterpret_borrow<py::tuple>(item);
    calls::InputPath& made = read.emplace_back(calls::InputPath{.root = path[0].cast<int64_t>()});
    for (const py::handle step : path[1]) {
      const auto pair = py::reinterpret_borrow<py::tuple>(step);
      made.steps.push_back({pair[0].cast<bool>(), py::object(pair[1])});
    }
    if (!path[2].is_none()) made.query = path[2].cast<std::pair<std::string, int64_t>>();
  }
  auto inputs =
      std::make_unique<calls::InputTemplate>(owner.program().name, std::move(names), std::move(read), std::move(model));
  return py::reinterpret_steal<py::object>(
      make_callable(std::move(executable), calls::Arguments::kNamed, std::move(inputs), std::move(label)));
}

// `group_name(name, ranks)` returns the name in this process of a process group of the saved Program.
std::shared_ptr<Artifact> load(const std::string& path, const py::function& group_name, const RunRequest& request) {
  program::Loaded read = program::load(path, bridge::torch_facts());
  bridge::rename_groups(read.program, [&](const std::string& name, const std::vector<int64_t>& ranks) {
    return group_name(name, ranks).cast<std::string>();
  });
  return std::make_shared<Artifact>(std::move(read), request, compile_host(), bridge::TorchHost::instance());
}

std::string repr(const compiler::TaskInfo& task) {
  return cat("<npugraph.TaskInfo ", task.name, ": ", task.kind, task.source.empty() ? "" : " at ", task.source, ", ",
             task.nanoseconds, " ns>");
}

std::string repr(const Partition& part) {
  return cat("<npugraph.Partition ", part.target, " at ", part.source, ": runs as ", part.runs_as, ", ", part.reason,
             ">");
}

std::string repr(const compiler::BufferInfo& buffer) {
  return cat("<npugraph.BufferInfo ", buffer.name, ": ", buffer.kind, ", ", buffer.bytes, " bytes, tasks ",
             buffer.first_task, " to ", buffer.last_task, ">");
}

std::string repr(const passes::Remark& remark) {
  return cat("<npugraph.Remark ", remark.pass, " at ", remark.node, ": ", remark.message, ">");
}

std::string repr(const lower::LeftApart& pair) {
  return cat("<npugraph.LeftApart ", pair.producer, " -> ", pair.consumer, ": ", pair.reason, ">");
}

// The parts of a request are attributes of it; Python sets their fields in place.
void init_requests(py::module_& module) {
  init_capture_rules(module);
  py::class_<runtime::Options>(module, "CallOptions")
      .def_readwrite("max_instances", &runtime::Options::max_instances)
      .def_readwrite("max_concurrent", &runtime::Options::max_concurrent)
      .def_readwrite("capture", &runtime::Options::capture)
      .def_readwrite("label", &runtime::Options::label)
      .def_readwrite("rules", &runtime::Options::rules);
  py::class_<compiler::StaticKernelRequest>(module, "StaticKernelRequest")
      .def_readwrite("enabled", &compiler::StaticKernelRequest::enabled)
      .def_readwrite("on_disk", &compiler::StaticKernelRequest::on_disk)
      .def_readwrite("symbol", &compiler::StaticKernelRequest::symbol)
      .def_readwrite("values", &compiler::StaticKernelRequest::values);
  py::class_<RunRequest>(module, "RunRequest")
      .def(py::init<>())
      .def_readwrite("calls", &RunRequest::calls)
      .def_readwrite("static_kernels", &RunRequest::static_kernels);
  py::class_<lower::MergeOptions>(module, "SuperKernelRequest")
      .def_readwrite("enabled", &lower::MergeOptions::merges)
      .def_readwrite("workers", &lower::MergeOptions::workers);
  py::class_<CompileRequest>(module, "CompileRequest")
      .def(py::init<>())
      .def_readwrite("name", &CompileRequest::name)
      .def_readwrite("passes", &CompileRequest::passes)
      .def_readwrite("disabled_passes", &CompileRequest::disabled_passes)
      .def_readwrite("generate", &CompileRequest::generate)
      .def_readwrite("group", &CompileRequest::group)
      .def_readwrite("place_parts", &CompileRequest::place_parts)
      .def_readwrite("verify", &CompileRequest::verify)
      .def_readwrite("training", &CompileRequest::training)
      .def_readwrite("super_kernels", &CompileRequest::super_kernels)
      .def_readwrite("guards", &CompileRequest::guards)
      .def_readwrite("run", &CompileRequest::run);
}

// The facts of an artifact other than its tasks.
void init_facts(py::module_& module) {
  py::class_<compiler::BufferInfo>(module, "BufferInfo")
      .def_readonly("name", &compiler::BufferInfo::name)
      .def_readonly("kind", &compiler::BufferInfo::kind)
      .def_readonly("bytes", &compiler::BufferInfo::bytes)
      .def_readonly("offset", &compiler::BufferInfo::offset)
      .def_readonly("first_task", &compiler::BufferInfo::first_task)
      .def_readonly("last_task", &compiler::BufferInfo::last_task)
      .def("__repr__", [](const compiler::BufferInfo& buffer) { return repr(buffer); });
  py::class_<passes::Remark>(module, "Remark")
      .def_readonly("pass_name", &passes::Remark::pass)
      .def_readonly("node", &passes::Remark::node)
      .def_readonly("message", &passes::Remark::message)
      .def("__repr__", [](const passes::Remark& remark) { return repr(remark); });
  py::class_<lower::LeftApart>(module, "LeftApart")
      .def_readonly("producer", &lower::LeftApart::producer)
      .def_readonly("consumer", &lower::LeftApart::consumer)
      .def_readonly("reason", &lower::LeftApart::reason)
      .def_readonly("origin", &lower::LeftApart::origin)
      .def_readonly("source", &lower::LeftApart::source)
      .def_property_readonly("bytes", [](const lower::LeftApart& pair) { return pair.bytes.as_int().value_or(0); })
      .def("__repr__", [](const lower::LeftApart& pair) { return repr(pair); });
}

bool writes_inputs(const Artifact& artifact) {
  const auto& inputs = artifact.program().inputs;
  return std::any_of(inputs.begin(), inputs.end(), [](const program::Input& input) { return input.mutated; });
}

}  // namespace

void init_artifact(py::module_& module) {
  init_requests(module);
  py::class_<Partition>(module, "Partition")
      .def(py::init([](std::string node, std::string target, std::string source, std::string runs_as,
                       std::string reason) {
        return Partition{std::move(node), std::move(target), std::move(source), std::move(runs_as), std::move(reason)};
      }))
      .def_readonly("node", &Partition::node)
      .def_readonly("target", &Partition::target)
      .def_readonly("source", &Partition::source)
      .def_readonly("runs_as", &Partition::runs_as)
      .def_readonly("reason", &Partition::reason)
      .def("__repr__", [](const Partition& part) { return repr(part); });
  py::class_<compiler::TaskInfo>(module, "TaskInfo")
      .def_readonly("name", &compiler::TaskInfo::name)
      .def_readonly("kind", &compiler::TaskInfo::kind)
      .def_readonly("stream", &compiler::TaskInfo::stream)
      .def_readonly("waits", &compiler::TaskInfo::waits)
      .def_readonly("limits", &compiler::TaskInfo::limits)
      .def_readonly("origin", &compiler::TaskInfo::origin)
      .def_readonly("source", &compiler::TaskInfo::source)
      .def_readonly("reason", &compiler::TaskInfo::reason)
      .def_readonly("bytes_read", &compiler::TaskInfo::bytes_read)
      .def_readonly("bytes_written", &compiler::TaskInfo::bytes_written)
      .def_readonly("bytes_copied", &compiler::TaskInfo::bytes_copied)
      .def_readonly("begin_nanoseconds", &compiler::TaskInfo::begin_nanoseconds)
      .def_readonly("nanoseconds", &compiler::TaskInfo::nanoseconds)
      .def_readonly("least_nanoseconds", &compiler::TaskInfo::least_nanoseconds)
      .def_readonly("most_nanoseconds", &compiler::TaskInfo::most_nanoseconds)
      .def_property_readonly("saved_bytes",
                             [](const compiler::TaskInfo& task) { return task.saved_bytes.as_int().value_or(0); })
      .def_property_readonly("operations",
                             [](const compiler::TaskInfo& task) { return task.operations.as_int().value_or(0); })
      .def("__repr__", [](const compiler::TaskInfo& task) { return repr(task); });
  init_facts(module);
  py::class_<Artifact, std::shared_ptr<Artifact>>(module, "Artifact")
      .def_static("compile", &compile)
      .def_static("load", &load, py::arg("path"), py::arg("group_name"), py::arg("request"))
      .def_property_readonly("name", &Artifact::name)
      .def("stages", &Artifact::stages)
      .def("graph", &Artifact::graph)
      .def("graph_stages", &Artifact::graph_stages)
      .def("changed_graphs", &Artifact::changed_graphs)
      .def("text", &Artifact::text)
      .def("program_text", &Artifact::program_text)
      .def("tasks", &Artifact::tasks)
      .def("partitions", &Artifact::partitions)
      .def("buffers", &Artifact::buffers)
      .def("remarks", &Artifact::remarks)
      .def("left_apart", &Artifact::left_apart)
      .def("instances", &instances)
      .def("runs", &runs)
      .def("counters", &Artifact::counters)
      .def("memory", &memory)
      .def("phases",
           [](const Artifact& a) {
             std::vector<std::pair<std::string, double>> phases;
             for (const PhaseTime& phase : a.phases()) phases.emplace_back(phase.name, phase.milliseconds);
             return phases;
           })
      .def(
          "explain",
          [](const Artifact& artifact, int64_t captures_in_pieces, int64_t runs_in_pieces) {
            return artifact.explain({.captures = captures_in_pieces, .runs = runs_in_pieces});
          },
          py::arg("captures_in_pieces") = 0, py::arg("runs_in_pieces") = 0)
      .def("scopes",
           [](const Artifact& artifact) {
             std::vector<std::tuple<std::string, int64_t, int64_t, std::vector<std::string>>> scopes;
             for (const lower::ScopeResult& scope : artifact.scopes())
               scopes.emplace_back(scope.scope, scope.tasks, scope.super_kernels, scope.cuts);
             return scopes;
           })
      .def("writes_inputs", &writes_inputs)
      .def(
          "save",
          [](const Artifact& artifact, const std::string& path, bool guarded, bool torch_free,
             program::Metadata facts) {
            artifact.save(path, {.guarded = guarded, .torch_free = torch_free, .facts = std::move(facts)});
          },
          py::arg("path"), py::kw_only(), py::arg("guarded"), py::arg("torch_free") = false,
          py::arg("facts") = program::Metadata())
      .def("facts", &Artifact::facts)
      .def("refresh", &Artifact::refresh)
      .def("inputs", [](const Artifact& artifact) { return inputs_of(artifact.program()); })
      .def("bind", &bind)
      .def(
          "callable",
          [](const std::shared_ptr<Artifact>& a, bool boxed) { return callable_of(a->executable(), boxed); },
          py::kw_only(), py::arg("boxed"));
  py::register_exception<compiler::ReportedDefect>(module, "ReportedDefect", PyExc_RuntimeError);
  module.def("report_text", [](const std::string& message, const std::string& what, const std::string& text) {
    return compiler::report_text(message, what, text, "report", environment().report_dir);
  });
  module.def(
      "out_variant",
      [](const std::string& name) -> std::optional<std::pair<std::string, bool>> {
        ir::Op op;
        op.name = name;
        const auto variant = bridge::aten_catalog().out_variant(op);
        if (!variant) return std::nullopt;
        return std::pair(variant->name, variant->any_strides);
      },
      py::arg("name"),
      "The operator that writes results of the ATen operator \"ns.name.overload\" into given memory, and whether it "
      "writes "
      "results of any strides. None if Programs call the operator itself.");
  module.def("drop_unused_code", &compiler::drop_unused_code);
  module.def("may_load_code", &codegen::may_load_code,
             "Whether this process may make memory executable, without which no generated code runs.");
  module.def("build_id", [] {
    static const char in_this_module = 0;
    return py::bytes(codegen::build_id() + codegen::build_id_of(&in_this_module));
  });
}

}  // namespace npugraph::bindings
