// SPDX-License-Identifier: Apache-2.0
// The graphs and allocators of a session, and what all sessions share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "ge/api/allocator.h"
#include "ge/api/run/api_error.h"
#include "ge/api/run/graph_entry.h"
#include "ge/api/run/options.h"
#include "ge/api/run/run_queue.h"
#include "ge/api/session.h"

namespace npugraph::ge {

// GEInitialize() and GEFinalize().
void initialise(const OptionMap& options);
void finalise();

// Functions throw ApiError. Thread-safe.
class SessionState {
 public:
  explicit SessionState(const OptionMap& options);
  ~SessionState();  // waits for runs, also in a callback: which must not be one of this session
  SessionState(const SessionState&) = delete;
  SessionState& operator=(const SessionState&) = delete;

  uint64_t id() const { return id_; }
  void add(uint32_t id, const ::ge::Graph& graph, const OptionMap& options, bool copies);
  std::shared_ptr<GraphEntry> graph(uint32_t id);
  void remove(uint32_t id);
  // Compiles a graph that is not compiled, and loads it on the stream if it is not loaded.
  void make_ready(GraphEntry& graph, const void* stream);
  void load(GraphEntry& graph, const void* stream);
  void run(uint32_t id, void* stream, const std::vector<::ge::Tensor>& inputs, std::vector<::ge::Tensor>& outputs);
  void execute(uint32_t id, void* stream, const std::vector<::ge::Tensor>& inputs, std::vector<::ge::Tensor>& outputs);
  void run_async(uint32_t id, const std::vector<::ge::Tensor>& inputs, ::ge::RunAsyncCallback callback);
  void add_allocator(const void* stream, ::ge::AllocatorPtr allocator);
  void remove_allocator(const void* stream);

 private:
  void check_usable() const;
  [[noreturn]] void fail_unknown(uint32_t id) const;
  std::vector<std::shared_ptr<GraphEntry>> all_graphs();
  GraphEntry::FindAllocator allocator_of(const void* stream);

  const OptionMap options_;
  std::optional<ApiError> refused_;  // what is wrong with the options
  const uint64_t id_;
  std::mutex mutex_;  // guards what follows
  std::map<uint32_t, std::shared_ptr<GraphEntry>> graphs_;
  std::map<const void*, ::ge::AllocatorPtr> allocators_;
  RunQueue async_runs_;  // ends first
};

}  // namespace npugraph::ge
