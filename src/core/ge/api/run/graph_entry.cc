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

ir::Graph import(const SerialisedModel& model, const std::string& name, const EngineOptions& options) {
  try {
    return import_graph(model.model, graph_of(model.model), Device{}, {.dump = dump_of(options, name, 0)});
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
    : graph_(std::move(graph)), in_gate_(graph_->enter()), compiled_(compiled) {
  inputs_.emplace(compiled_.program(), std::move(inputs));
  inputs_->take_data(compiled_.host());
  outputs_.emplace(compiled_.program(), *inputs_, outputs, compiled_.host());
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
  outputs_.reset();
  inputs_.reset();
  in_gate_.reset();
  graph_.reset();
}

GraphEntry::GraphEntry(std::string name, std::shared_ptr<const SerialisedModel> model, EngineOptions options)
    : name_(std::move(name)), model_(std::move(model)), options_(std::move(options)) {}

void GraphEntry::compile() {
  std::lock_guard lock(mutex_);
  if (compiled_.valid() && (!is_ready(compiled_) || !has_failed(compiled_))) return;
  const auto make = [name = name_, options = options_, model = model_](ir::Graph graph) {
    return std::make_shared<CompiledGraph>(std::move(graph), name, options);
  };
  compiled_ = std::async(std::launch::async, make, import(*model_, name_, options_)).share();
}

std::shared_future<GraphEntry::Compiled> GraphEntry::compiling() const {
  std::lock_guard lock(mutex_);
  return compiled_;
}

bool GraphEntry::needs_compile() const {
  const auto compiled = compiling();
  return !compiled.valid() || has_failed(compiled);
}

std::optional<const void*> GraphEntry::loaded_on() const {
  std::lock_guard lock(mutex_);
  return loaded_ ? std::optional(loaded_->stream) : std::nullopt;
}

GraphEntry::Compiled GraphEntry::compiled() const {
  const auto compiled = compiling();
  if (!compiled.valid())
    throw ApiError(::ge::GE_GRAPH_NOT_COMPILED, "CompileGraph() or BuildGraph() has to be called for the graph first");
  return compiled.get();
}

std::shared_ptr<const GraphFacts> GraphEntry::facts() const { return compiled()->shared_facts(); }

// A run that a callback begins must not wait for changes, which may wait for runs behind the callback.
Gate::Run GraphEntry::enter() {
  Gate::Run run = gate_.enter(InCallback::is_here());
  if (run == nullptr) fail_removed();
  return run;
}

Gate::Change GraphEntry::begin_change() {
  Gate::Change change = gate_.close();
  if (change == nullptr) fail_removed();
  return change;
}

void GraphEntry::set_constants(void* memory, size_t bytes) {
  InCallback::refuse();
  const Compiled graph = compiled();
  std::byte* base = checked_base(memory, bytes, graph->facts().constant_bytes, "const");
  const Gate::Change change = begin_change();
  graph->use_constants(base);
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
  const Gate::Change change = begin_change();
  graph->use_features({base, base == nullptr ? 0 : static_cast<size_t>(needed)});
}

void GraphEntry::set_fixed_features(size_t bytes) const {
  compiled();
  if (bytes > 0)
    throw ApiError(::ge::PARAM_INVALID,
                   cat("the graph has 0 bytes of fixed feature memory, as all of it may move: got ", bytes));
}

bool GraphEntry::is_loaded(const void* stream, const FindAllocator& find) const {
  std::lock_guard lock(mutex_);
  return loaded_ && *loaded_ == Load{stream, find()};
}

void GraphEntry::load(const void* stream, const FindAllocator& find) {
  compiled();
  if (is_loaded(stream, find)) return;
  if (!InCallback::is_here()) {
    const Gate::Change change = begin_change();
    return use_allocator(stream, find);
  }
  load_first(stream, find);
  if (!is_loaded(stream, find)) InCallback::refuse();
}

// A graph that is not loaded has no runs. If there are some, another thread has loaded it.
void GraphEntry::load_first(const void* stream, const FindAllocator& find) {
  compiled();
  if (loaded_on()) return;
  const Gate::Change change = gate_.close_if_idle();
  if (loaded_on()) return;
  if (change == nullptr) fail_removed();
  use_allocator(stream, find);
}

// Found and noted in one step: leave() misses no allocator.
void GraphEntry::use_allocator(const void* stream, const FindAllocator& find) {
  const Compiled graph = compiled();
  ::ge::AllocatorPtr allocator;
  {
    std::lock_guard lock(mutex_);
    allocator = find();
    loading_ = {stream, allocator};
  }
  try {
    graph->use_allocator(allocator);
  } catch (...) {
    std::lock_guard lock(mutex_);
    loading_.reset();
    throw;
  }
  std::lock_guard lock(mutex_);
  loaded_ = std::exchange(loading_, std::nullopt);
}

void GraphEntry::leave(const void* stream, const ::ge::AllocatorPtr& allocator) {
  const Load left{stream, allocator};
  {
    std::lock_guard lock(mutex_);
    if (loaded_ != left && loading_ != left) return;
  }
  const Gate::Change change = gate_.close();
  if (change == nullptr) return;  // its end gives all memory back
  {
    std::lock_guard lock(mutex_);
    if (loaded_ != left) return;
  }
  use_allocator(stream, [] { return ::ge::AllocatorPtr(); });
}

void GraphEntry::prepare(std::vector<::ge::Tensor> inputs) {
  const Compiled graph = compiled();
  const Gate::Run run = enter();
  graph->prepare(CallInputs(graph->program(), std::move(inputs)));
}

std::shared_ptr<PendingRun> GraphEntry::begin(std::vector<::ge::Tensor> inputs, std::span<const ::ge::Tensor> outputs) {
  const Compiled graph = compiled();
  return std::make_shared<PendingRun>(shared_from_this(), *graph, std::move(inputs), outputs);
}

void GraphEntry::remove() noexcept {
  gate_.shut();
  const auto compiled = compiling();
  if (compiled.valid() && !has_failed(compiled)) compiled.get()->release_memory();
}

}  // namespace npugraph::ge
