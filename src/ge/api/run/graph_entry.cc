// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/graph_entry.h"

#include <chrono>
#include <exception>
#include <utility>

#include "ge/api/run/api_error.h"
#include "ge/engine/compile.h"
#include "ge/import/import.h"
#include "program/offsets.h"

namespace npugraph::ge {
namespace {

thread_local int callbacks = 0;

bool is_ready(const std::shared_future<std::shared_ptr<CompiledGraph>>& compiled) {
  return compiled.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

bool has_failed(const std::shared_future<std::shared_ptr<CompiledGraph>>& compiled) {
  try {
    compiled.get();
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

ir::Graph import(const SerialisedModel& model) {
  try {
    return import_graph(model.model, graph_of(model.model), Device{});
  } catch (const UserError& error) {
    throw ApiError(::ge::GE_GRAPH_INVALID, error.what());
  }
}

// Memory of the user; null and 0 stand for none.
std::byte* checked_base(void* memory, size_t bytes, int64_t needed, const char* what) {
  if (memory == nullptr && bytes == 0) return nullptr;
  if (memory == nullptr) throw ApiError(::ge::PARAM_INVALID, cat("the address of ", bytes, " bytes of memory is null"));
  if (reinterpret_cast<uintptr_t>(memory) % program::kArenaAlignment != 0)
    throw ApiError(::ge::PARAM_INVALID,
                   cat("memory has to be aligned to ", program::kArenaAlignment, " bytes, got address ", memory));
  if (static_cast<int64_t>(bytes) < needed)
    throw ApiError(::ge::PARAM_INVALID, cat("the graph needs ", needed, " bytes of ", what, " memory, got ", bytes));
  return static_cast<std::byte*>(memory);
}

[[noreturn]] void fail_removed() { throw ApiError(::ge::GE_GRAPH_NOT_EXIST, "the graph was removed"); }

}  // namespace

InCallback::InCallback() { ++callbacks; }
InCallback::~InCallback() { --callbacks; }

bool InCallback::is_here() { return callbacks > 0; }

void InCallback::refuse() {
  if (is_here())
    throw ApiError(
        ::ge::GE_IN_CALLBACK,
        "it waits for runs and has to be called outside of callbacks of RunGraphAsync(), for which runs wait");
}

PendingRun::PendingRun(std::shared_ptr<GraphEntry> graph, CompiledGraph& compiled, std::vector<::ge::Tensor> inputs,
                       std::span<const ::ge::Tensor> outputs)
    : compiled_(compiled) {
  // A run that a callback begins must not wait for changes, which may wait for runs behind the callback.
  if (!graph->gate_.enter(InCallback::is_here())) fail_removed();
  graph_ = std::move(graph);
  try {
    inputs_.emplace(compiled_.program(), std::move(inputs));
    inputs_->check_data();
    outputs_.emplace(compiled_.program(), *inputs_, outputs, compiled_.host());
  } catch (...) {
    finish();
    throw;
  }
}

void PendingRun::run() {
  struct Finish {
    PendingRun& run;
    ~Finish() { run.finish(); }
  } const finish{*this};
  compiled_.run(*inputs_, *outputs_);
}

// Memory goes before the graph learns of the end.
void PendingRun::finish() {
  if (graph_ == nullptr) return;
  inputs_.reset();
  outputs_.reset();
  graph_->gate_.leave();
  graph_.reset();
}

GraphEntry::GraphEntry(std::string name, std::shared_ptr<const SerialisedModel> model, const GraphOptions& options)
    : name_(std::move(name)), model_(std::move(model)), options_(options) {}

void GraphEntry::compile() {
  std::lock_guard lock(mutex_);
  if (compiled_.valid() && (!is_ready(compiled_) || !has_failed(compiled_))) return;
  const auto make = [name = name_, options = options_, model = model_](ir::Graph graph) {
    return std::make_shared<CompiledGraph>(std::move(graph), name, options);
  };
  compiled_ = std::async(std::launch::async, make, import(*model_)).share();
}

std::shared_future<GraphEntry::Compiled> GraphEntry::compiling() const {
  std::lock_guard lock(mutex_);
  return compiled_;
}

std::optional<GraphEntry::Load> GraphEntry::loaded() const {
  std::lock_guard lock(mutex_);
  return loaded_;
}

bool GraphEntry::needs_compile() const {
  const auto compiled = compiling();
  return !compiled.valid() || has_failed(compiled);
}

std::optional<const void*> GraphEntry::loaded_on() const {
  const auto load = loaded();
  return load ? std::optional(load->stream) : std::nullopt;
}

GraphEntry::Compiled GraphEntry::compiled() const {
  const auto compiled = compiling();
  if (!compiled.valid())
    throw ApiError(::ge::GE_GRAPH_NOT_COMPILED, "CompileGraph() or BuildGraph() has to be called for the graph first");
  return compiled.get();
}

std::shared_ptr<const GraphFacts> GraphEntry::facts() const {
  const Compiled graph = compiled();
  return {graph, &graph->facts()};
}

void GraphEntry::change(const std::function<void()>& change) {
  if (!gate_.close()) fail_removed();
  struct Open {
    Gate& gate;
    ~Open() { gate.open(); }
  } const open{gate_};
  change();
}

void GraphEntry::set_constants(void* memory, size_t bytes) {
  InCallback::refuse();
  const Compiled graph = compiled();
  std::byte* base = checked_base(memory, bytes, graph->facts().constant_bytes, "const");
  change([&] { graph->use_constants(base); });
}

void GraphEntry::set_features(void* memory, size_t bytes) {
  InCallback::refuse();
  const Compiled graph = compiled();
  if (!graph->facts().is_static())
    throw ApiError(
        ::ge::GE_GRAPH_NOT_STATIC,
        "sizes of inputs decide how much feature memory the graph needs: the engine takes it at each run, from "
        "the external allocator of the stream if there is one");
  const int64_t needed = *graph->facts().feature_bytes;
  std::byte* base = checked_base(memory, bytes, needed, "feature");
  change([&] { graph->use_features({base, base == nullptr ? 0 : static_cast<size_t>(needed)}); });
}

void GraphEntry::set_fixed_features(size_t bytes) const {
  compiled();
  if (bytes > 0)
    throw ApiError(::ge::PARAM_INVALID,
                   cat("the graph has 0 bytes of fixed feature memory, as all of it may move: got ", bytes));
}

void GraphEntry::load(const void* stream, const ::ge::AllocatorPtr& allocator) {
  const Compiled graph = compiled();
  const std::optional<Load> before = loaded();
  if (before && before->stream == stream && before->allocator == allocator) return;
  if (before) InCallback::refuse();  // without a load there are no runs to wait for
  change([&] {
    graph->use_allocator(allocator);
    std::lock_guard lock(mutex_);
    loaded_ = {stream, allocator};
  });
}

void GraphEntry::prepare(std::vector<::ge::Tensor> inputs) {
  const Compiled graph = compiled();
  graph->prepare(CallInputs(graph->program(), std::move(inputs)));
}

void GraphEntry::leave(const ::ge::AllocatorPtr& allocator) {
  InCallback::refuse();
  const std::optional<Load> load = loaded();
  if (!load || load->allocator != allocator) return;
  change([&] {
    compiled()->use_allocator(nullptr);
    std::lock_guard lock(mutex_);
    loaded_->allocator = nullptr;
  });
}

std::shared_ptr<PendingRun> GraphEntry::begin(std::vector<::ge::Tensor> inputs, std::span<const ::ge::Tensor> outputs) {
  const Compiled graph = compiled();
  return std::make_shared<PendingRun>(shared_from_this(), *graph, std::move(inputs), outputs);
}

void GraphEntry::remove() {
  InCallback::refuse();
  if (!gate_.shut()) fail_removed();
  const auto compiled = compiling();
  if (compiled.valid() && !has_failed(compiled)) compiled.get()->release_memory();
}

}  // namespace npugraph::ge
