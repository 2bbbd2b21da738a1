// SPDX-License-Identifier: Apache-2.0
#include "ge/api/session.h"

#include <string>
#include <utility>

#include "ge/api/run/api_error.h"
#include "ge/api/run/run_queue.h"
#include "ge/api/run/session_state.h"

namespace ge {

using npugraph::ge::api_call;
using npugraph::ge::OptionMap;

Session::Session(const OptionMap& options) : state_(std::make_shared<npugraph::ge::SessionState>(options)) {}

Session::~Session() = default;

uint64_t Session::GetSessionId() const { return state_->id(); }

Status Session::AddGraph(uint32_t graph_id, const Graph& graph) { return AddGraph(graph_id, graph, OptionMap{}); }

Status Session::AddGraph(uint32_t graph_id, const Graph& graph, const std::map<std::string, std::string>& options) {
  OptionMap converted;
  for (const auto& [name, value] : options) converted.emplace(name.c_str(), value.c_str());
  return AddGraph(graph_id, graph, converted);
}

Status Session::AddGraph(uint32_t graph_id, const Graph& graph, const OptionMap& options) {
  return api_call("Session::AddGraph", [&] { state_->add(graph_id, graph, options, false); });
}

Status Session::AddGraphWithCopy(uint32_t graph_id, const Graph& graph) {
  return AddGraphWithCopy(graph_id, graph, OptionMap{});
}

Status Session::AddGraphWithCopy(uint32_t graph_id, const Graph& graph, const OptionMap& options) {
  return api_call("Session::AddGraphWithCopy", [&] { state_->add(graph_id, graph, options, true); });
}

Status Session::RemoveGraph(uint32_t graph_id) {
  return api_call("Session::RemoveGraph", [&] { state_->remove(graph_id); });
}

Status Session::CompileGraph(uint32_t graph_id) {
  return api_call("Session::CompileGraph", [&] { state_->graph(graph_id)->compile(); });
}

Status Session::BuildGraph(uint32_t graph_id, const std::vector<Tensor>& inputs) {
  return api_call("Session::BuildGraph", [&] {
    const auto graph = state_->graph(graph_id);
    state_->make_ready(*graph, nullptr);
    if (!inputs.empty()) graph->prepare(inputs);
  });
}

CompiledGraphSummaryPtr Session::GetCompiledGraphSummary(uint32_t graph_id) {
  CompiledGraphSummaryPtr summary;
  api_call("Session::GetCompiledGraphSummary",
           [&] { summary = std::make_shared<CompiledGraphSummary>(state_->graph(graph_id)->facts()); });
  return summary;
}

bool Session::IsGraphNeedRebuild(uint32_t graph_id) {
  bool needs = true;
  api_call("Session::IsGraphNeedRebuild", [&] { needs = state_->graph(graph_id)->needs_compile(); });
  return needs;
}

Status Session::SetGraphConstMemoryBase(uint32_t graph_id, const void* memory, size_t size) {
  return api_call("Session::SetGraphConstMemoryBase",
                  [&] { state_->graph(graph_id)->set_constants(const_cast<void*>(memory), size); });
}

Status Session::UpdateGraphFeatureMemoryBase(uint32_t graph_id, const void* memory, size_t size) {
  return api_call("Session::UpdateGraphFeatureMemoryBase",
                  [&] { state_->graph(graph_id)->set_features(const_cast<void*>(memory), size); });
}

Status Session::UpdateGraphRefreshableFeatureMemoryBase(uint32_t graph_id, const void* memory, size_t size) {
  return api_call("Session::UpdateGraphRefreshableFeatureMemoryBase",
                  [&] { state_->graph(graph_id)->set_features(const_cast<void*>(memory), size); });
}

Status Session::SetGraphFixedFeatureMemoryBase(uint32_t graph_id, const void* /*memory*/, size_t size) {
  return api_call("Session::SetGraphFixedFeatureMemoryBase",
                  [&] { state_->graph(graph_id)->set_fixed_features(size); });
}

Status Session::LoadGraph(uint32_t graph_id, const OptionMap& options, void* stream) {
  return api_call("Session::LoadGraph", [&] {
    if (!options.empty()) npugraph::ge::add_warning("options of LoadGraph() have no effect: give them to AddGraph()");
    state_->load(*state_->graph(graph_id), stream);
  });
}

Status Session::RunGraph(uint32_t graph_id, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
  return api_call("Session::RunGraph", [&] {
    std::vector<Tensor> made;
    state_->run(graph_id, nullptr, inputs, made);
    outputs = std::move(made);
  });
}

Status Session::RunGraphAsync(uint32_t graph_id, const std::vector<Tensor>& inputs, RunAsyncCallback callback) {
  return api_call("Session::RunGraphAsync", [&] { state_->run_async(graph_id, inputs, std::move(callback)); });
}

Status Session::RunGraphWithStreamAsync(uint32_t graph_id, void* stream, const std::vector<Tensor>& inputs,
                                        std::vector<Tensor>& outputs) {
  return api_call("Session::RunGraphWithStreamAsync", [&] { state_->run(graph_id, stream, inputs, outputs); });
}

Status Session::ExecuteGraphWithStreamAsync(uint32_t graph_id, void* stream, const std::vector<Tensor>& inputs,
                                            std::vector<Tensor>& outputs) {
  return api_call("Session::ExecuteGraphWithStreamAsync", [&] { state_->execute(graph_id, stream, inputs, outputs); });
}

Status Session::RegisterExternalAllocator(const void* stream, AllocatorPtr allocator) {
  return api_call("Session::RegisterExternalAllocator", [&] { state_->add_allocator(stream, std::move(allocator)); });
}

Status Session::UnregisterExternalAllocator(const void* stream) {
  return api_call("Session::UnregisterExternalAllocator", [&] { state_->remove_allocator(stream); });
}

Stream::Stream() : queue_(std::make_shared<npugraph::ge::StreamQueue>()) { npugraph::ge::add_stream(this, queue_); }

Stream::~Stream() {
  npugraph::ge::remove_stream(this);
  queue_->wait();
}

Status Stream::Synchronize() {
  return npugraph::ge::api_call("Stream::Synchronize", [&] {
    queue_->wait();
    for (std::string& warning : queue_->take_warnings()) npugraph::ge::add_warning(std::move(warning));
    if (const auto failure = queue_->take_failure()) throw npugraph::ge::ApiError(failure->first, failure->second);
  });
}

}  // namespace ge
