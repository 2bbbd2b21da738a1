// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/compiled_graph.h"

#include "compiler/runnable.h"
#include "compiler/task_makers.h"
#include "ge/api/run/api_error.h"
#include "ge/data_types.h"
#include "ge/engine/compile.h"
#include "runtime/held_memory.h"

namespace npugraph::ge {

using program::Output;

CompiledGraph::CompiledGraph(ir::Graph graph, const std::string& name, const EngineOptions& options)
    : limits_(core_limits(options)), host_(name) {
  try {
    graph.name = name;
    compiler::CompileResult result = compile_imported(std::move(graph), options);
    program_ = std::make_shared<const program::Program>(std::move(result.program));
    compiler::RunRequest request;
    request.calls.memory = &memory_;
    executable_ =
        compiler::make_runnable(program_, host_, request, compiler::make_task, result.generated.get()).executable;
    facts_ = std::make_shared<const GraphFacts>(find_facts());
  } catch (const UserError& error) {
    throw ApiError(::ge::GE_GRAPH_INVALID, error.what());
  }
}

GraphFacts CompiledGraph::find_facts() const {
  GraphFacts facts;
  facts.constant_bytes = runtime::HeldMemory(*executable_).constant_bytes();
  if (program_->symbols.empty()) {
    const std::vector<runtime::BoundInput> inputs(program_->inputs.size());
    facts.feature_bytes = executable_->prepare({.all = inputs, .stream = {.limits = limits_}});
  }
  facts.name = program_->name;
  facts.tasks_of_streams[0];  // also of a graph without tasks
  for (const program::Task& task : program_->tasks) {
    facts.tasks_of_streams[task.stream].emplace_back(task.origin.c_str(), task.name.c_str());
    facts.events += task.waits.size();
  }
  for (size_t i = 0; i < program_->outputs.size(); ++i) {
    const Output& output = program_->outputs[i];
    const bool is_input = output.kind == Output::Kind::kInput;
    if (is_input) facts.same_addresses.emplace_back(output.input, i);
    const auto& sizes = is_input ? program_->inputs[output.input].sizes : output.tensor.sizes;
    std::vector<int64_t> dims;
    for (const program::Dim& size : sizes) dims.push_back(size.is_constant() ? size.constant : -1);
    facts.output_shapes.emplace_back(std::move(dims));
    const DType dtype = is_input ? program_->inputs[output.input].dtype : output.tensor.dtype;
    facts.output_types.push_back(static_cast<::ge::DataType>(row_of(dtype).number));
  }
  return facts;
}

UserBlock CompiledGraph::block_for_constants(const ::ge::AllocatorPtr& allocator) const {
  if (allocator == nullptr || facts_->constant_bytes == 0) return {};
  return {allocator, facts_->constant_bytes};
}

void CompiledGraph::keep_constants(UserBlock block) {
  runtime::HeldMemory(*executable_).move_constants(block.data());
  constants_ = std::move(block);
  constants_given_ = false;
}

void CompiledGraph::use_constants(std::byte* base) {
  if (base == nullptr) return keep_constants(block_for_constants(allocator_));
  runtime::HeldMemory(*executable_).move_constants(base);
  constants_ = {};
  constants_given_ = true;
}

void CompiledGraph::use_features(std::span<std::byte> block) {
  runtime::HeldMemory(*executable_).release();
  memory_.use(block);
}

void CompiledGraph::use_allocator(const ::ge::AllocatorPtr& allocator) {
  if (allocator == allocator_) return;
  // Nothing has changed if the allocator has no memory.
  UserBlock constants = constants_given_ ? UserBlock() : block_for_constants(allocator);
  if (!memory_.is_given()) runtime::HeldMemory(*executable_).release();
  memory_.use(allocator);
  host_.use(allocator);
  allocator_ = allocator;
  if (!constants_given_) keep_constants(std::move(constants));
}

void CompiledGraph::release_memory() {
  use_features({});
  use_allocator(nullptr);
  use_constants(nullptr);
}

void CompiledGraph::prepare(const CallInputs& inputs) {
  executable_->prepare({.all = inputs.bound(), .stream = {.limits = limits_}});
}

void CompiledGraph::run(CallInputs& inputs, CallOutputs& outputs) {
  std::unique_lock alone(one_run_, std::defer_lock);
  if (memory_.is_given()) alone.lock();
  inputs.lay_out();
  std::vector<runtime::BoundOutput> results(program_->outputs.size());
  std::vector<int64_t> dims;
  const runtime::RunResult result = executable_->run(
      {.all = inputs.bound(), .stream = {.limits = limits_}, .results = outputs.memory()}, results, dims);
  if (!result.warning.empty()) add_warning(result.warning);
  switch (result.status) {
    case runtime::RunStatus::kOk: inputs.write_back(); return outputs.finish(*program_, results, inputs);
    case runtime::RunStatus::kInputsOverlap:
      throw ApiError(::ge::PARAM_INVALID, "an input that the graph writes overlaps another input");
    case runtime::RunStatus::kInputElsewhere:
    case runtime::RunStatus::kInputRefused: throw ApiError(::ge::PARAM_INVALID, result.error);
    case runtime::RunStatus::kTaskFailed: throw ApiError(::ge::FAILED, result.error);
  }
}

}  // namespace npugraph::ge
