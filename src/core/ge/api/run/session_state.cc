// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/session_state.h"

#include <set>
#include <string>
#include <utility>

#include "base/words.h"
#include "ge/api/run/run_queue.h"
#include "ge/api/run/serialised_model.h"
#include "ge/engine/compile.h"

namespace npugraph::ge {
namespace {

struct Engine {
  std::mutex mutex;
  bool initialised = false;
  OptionMap options;
  uint64_t sessions_made = 0;
  std::set<uint64_t> sessions;
};

// Leaked on purpose: sessions may outlive static destruction.
Engine& engine() {
  static auto* the_engine = new Engine;
  return *the_engine;
}

uint64_t add_session() {
  std::lock_guard lock(engine().mutex);
  const uint64_t id = engine().sessions_made++;
  engine().sessions.insert(id);
  return id;
}

OptionMap global_options() {
  std::lock_guard lock(engine().mutex);
  return engine().options;
}

void check_initialised() {
  std::lock_guard lock(engine().mutex);
  if (!engine().initialised) throw ApiError(::ge::GE_NOT_INITIALIZED, "GEInitialize() has to be called first");
}

}  // namespace

void initialise(const OptionMap& options) {
  parse_options(options);
  std::lock_guard lock(engine().mutex);
  if (engine().initialised) {
    if (options != engine().options) add_warning("GEInitialize() was called before: other options have no effect");
    return;
  }
  check_options(options);
  engine().options = options;
  engine().initialised = true;
}

void finalise() {
  std::lock_guard lock(engine().mutex);
  if (!engine().initialised) throw ApiError(::ge::GE_NOT_INITIALIZED, "GEInitialize() has to be called first");
  std::string ids;
  for (const uint64_t id : engine().sessions) ids += cat(ids.empty() ? "" : ", ", id);
  if (!ids.empty())
    throw ApiError(::ge::GE_SESSIONS_EXIST,
                   cat(counted(engine().sessions.size(), "session"), " (", ids, ") has to be destroyed first"));
  engine().initialised = false;
  engine().options.clear();
}

SessionState::SessionState(const OptionMap& options) : options_(options), id_(add_session()) {
  try {
    check_options(options);
  } catch (const ApiError& error) {
    refused_.emplace(error);
  }
}

SessionState::~SessionState() {
  for (const auto& graph : all_graphs()) graph->remove();
  std::lock_guard lock(engine().mutex);
  engine().sessions.erase(id_);
}

void SessionState::check_usable() const {
  check_initialised();
  if (refused_) throw ApiError(refused_->status, cat("the session cannot be used: ", refused_->what()));
}

std::vector<std::shared_ptr<GraphEntry>> SessionState::all_graphs() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<GraphEntry>> graphs;
  for (const auto& [id, graph] : graphs_) graphs.push_back(graph);
  return graphs;
}

void SessionState::add(uint32_t id, const ::ge::Graph& graph, const OptionMap& options, bool copies) {
  check_usable();
  const std::shared_ptr<const SerialisedModel> given = model_in(graph);
  check_options(options);
  const EngineOptions parsed = parse_options(merged(merged(global_options(), options_), options));
  const auto model = copies ? copy_of_bytes(given->bytes, given->folder) : given;
  ::ge::AscendString name;
  graph.GetName(name);
  const std::string full_name = cat(name.GetLength() == 0 ? "graph" : name.GetString(), "_", id_, "_", id);
  std::lock_guard lock(mutex_);
  const bool added = graphs_.try_emplace(id, std::make_shared<GraphEntry>(full_name, model, parsed)).second;
  if (!added)
    throw ApiError(::ge::GE_GRAPH_EXISTS, cat("session ", id_, " has a graph ", id, ": RemoveGraph() it first"));
}

void SessionState::fail_unknown(uint32_t id) const {
  throw ApiError(::ge::GE_GRAPH_NOT_EXIST,
                 cat("session ", id_, " has no graph ", id, ": AddGraph() has to come first"));
}

std::shared_ptr<GraphEntry> SessionState::graph(uint32_t id) {
  check_usable();
  std::lock_guard lock(mutex_);
  const auto found = graphs_.find(id);
  if (found == graphs_.end()) fail_unknown(id);
  return found->second;
}

void SessionState::remove(uint32_t id) {
  check_usable();
  InCallback::refuse();
  decltype(graphs_)::node_type removed;
  {
    std::lock_guard lock(mutex_);
    removed = graphs_.extract(id);
  }
  if (removed.empty()) fail_unknown(id);
  removed.mapped()->remove();
}

GraphEntry::FindAllocator SessionState::allocator_of(const void* stream) {
  return [this, stream] {
    std::lock_guard lock(mutex_);
    const auto found = allocators_.find(stream);
    return found == allocators_.end() ? nullptr : found->second;
  };
}

void SessionState::load(GraphEntry& graph, const void* stream) {
  queue_of(stream);
  graph.load(stream, allocator_of(stream));
}

void SessionState::make_ready(GraphEntry& graph, const void* stream) {
  graph.compile();
  graph.load_first(stream, allocator_of(stream));
}

void SessionState::run(uint32_t id, void* stream, const std::vector<::ge::Tensor>& inputs,
                       std::vector<::ge::Tensor>& outputs) {
  const std::shared_ptr<GraphEntry> entry = graph(id);
  const std::shared_ptr<StreamQueue> queue = queue_of(stream);
  make_ready(*entry, stream);
  std::shared_ptr<PendingRun> pending = entry->begin(inputs, outputs);
  std::vector<::ge::Tensor> made = pending->outputs();
  if (queue != nullptr) {
    queue->add([pending = std::move(pending)] { pending->run(); });
  } else {
    pending->run();
  }
  outputs = std::move(made);
}

void SessionState::execute(uint32_t id, void* stream, const std::vector<::ge::Tensor>& inputs,
                           std::vector<::ge::Tensor>& outputs) {
  queue_of(stream);
  if (graph(id)->loaded_on() != std::optional<const void*>(stream))
    throw ApiError(::ge::GE_GRAPH_NOT_LOADED,
                   cat("LoadGraph() has to be called for graph ", id, " on this stream first"));
  run(id, stream, inputs, outputs);
}

void SessionState::run_async(uint32_t id, const std::vector<::ge::Tensor>& inputs, ::ge::RunAsyncCallback callback) {
  if (!callback) throw ApiError(::ge::PARAM_INVALID, "the callback is empty");
  const std::shared_ptr<GraphEntry> entry = graph(id);
  make_ready(*entry, nullptr);
  std::shared_ptr<PendingRun> pending = entry->begin(inputs, {});
  async_runs_.add([pending = std::move(pending), callback = std::move(callback)]() mutable {
    std::vector<::ge::Tensor> outputs = pending->outputs();
    const ::ge::Status status = api_call("Session::RunGraphAsync", [&] { pending->run(); });
    if (status != ::ge::SUCCESS) outputs.clear();
    pending.reset();
    const InCallback here;
    callback(status, outputs);
    take_warnings();  // nobody else can
  });
}

void SessionState::add_allocator(const void* stream, ::ge::AllocatorPtr allocator) {
  check_usable();
  queue_of(stream);
  if (allocator == nullptr) throw ApiError(::ge::PARAM_INVALID, "the allocator is null");
  std::lock_guard lock(mutex_);
  if (!allocators_.emplace(stream, std::move(allocator)).second)
    throw ApiError(::ge::PARAM_INVALID, "the stream has an allocator: UnregisterExternalAllocator() it first");
}

void SessionState::remove_allocator(const void* stream) {
  check_usable();
  InCallback::refuse();
  ::ge::AllocatorPtr allocator;
  {
    std::lock_guard lock(mutex_);
    const auto found = allocators_.find(stream);
    if (found == allocators_.end())
      throw ApiError(::ge::PARAM_INVALID, "the stream has no allocator: RegisterExternalAllocator() has to come first");
    allocator = std::move(found->second);
    allocators_.erase(found);
  }
  for (const auto& graph : all_graphs()) graph->leave(stream, allocator);
}

}  // namespace npugraph::ge
