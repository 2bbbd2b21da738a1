// SPDX-License-Identifier: Apache-2.0
// One graph of a session: what was called for it, and what may be called next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ge/api/run/call_tensors.h"
#include "ge/api/run/compiled_graph.h"
#include "ge/api/run/gate.h"
#include "ge/api/run/options.h"
#include "ge/api/run/serialised_model.h"

namespace npugraph::ge {

// Marks the calling thread as one in which a callback of the user runs. Functions here that wait for runs refuse there:
// the runs may wait for the callback.
class InCallback {
 public:
  InCallback();
  ~InCallback();
  InCallback(const InCallback&) = delete;
  InCallback& operator=(const InCallback&) = delete;
  static bool is_here();
  // ApiError GE_IN_CALLBACK in such a thread.
  static void refuse();
};

class GraphEntry;

// A run whose arguments have been checked. Memory of its graph stays as it is, and the graph exists, until it has run
// or is destroyed. Not thread-safe; may be run in another thread than that which made it.
class PendingRun {
 public:
  PendingRun(std::shared_ptr<GraphEntry> graph, CompiledGraph& compiled, std::vector<::ge::Tensor> inputs,
             std::span<const ::ge::Tensor> outputs);
  ~PendingRun() { finish(); }
  PendingRun(const PendingRun&) = delete;
  PendingRun& operator=(const PendingRun&) = delete;

  // Before run(). Their elements are there after it.
  const std::vector<::ge::Tensor>& outputs() const { return outputs_->tensors(); }
  // To be called at most once. ApiError if it fails.
  void run();

 private:
  void finish();

  std::shared_ptr<GraphEntry> graph_;
  Gate::Run in_gate_;
  CompiledGraph& compiled_;
  std::optional<CallInputs> inputs_;
  std::optional<CallOutputs> outputs_;
};

// Functions throw ApiError. Thread-safe.
class GraphEntry : public std::enable_shared_from_this<GraphEntry> {
 public:
  GraphEntry(std::string name, std::shared_ptr<const SerialisedModel> model, EngineOptions options);

  // Reads the operators, and then makes code in another thread, for which the functions below wait. Does nothing if the
  // graph is compiled or being compiled.
  void compile();
  // Whether it was not compiled, or could not be.
  bool needs_compile() const;
  // GE_GRAPH_NOT_COMPILED before compile().
  // Lives on without the graph.
  std::shared_ptr<const GraphFacts> facts() const;
  void set_constants(void* memory, size_t bytes);
  void set_features(void* memory, size_t bytes);
  void set_fixed_features(size_t bytes) const;
  // The allocator of the stream that is being loaded on; null: the process. Called with a lock of the graph.
  using FindAllocator = std::function<::ge::AllocatorPtr()>;
  // From now on, memory that the user does not give comes from the allocator that is found.
  void load(const void* stream, const FindAllocator& find);
  // load() unless the graph is loaded. Waits for no run.
  void load_first(const void* stream, const FindAllocator& find);
  // Captures the sizes of the inputs. Requires that the graph is loaded.
  void prepare(std::vector<::ge::Tensor> inputs);
  // The stream of the last load(); nullopt before the first one.
  std::optional<const void*> loaded_on() const;
  // Gives the memory of an allocator back that was found for this stream and will not be found again.
  void leave(const void* stream, const ::ge::AllocatorPtr& allocator);
  // Requires that the graph is loaded. `outputs` as in CallOutputs.
  std::shared_ptr<PendingRun> begin(std::vector<::ge::Tensor> inputs, std::span<const ::ge::Tensor> outputs);
  // Waits for its runs and gives all memory back; then all functions say that there is no such graph.
  void remove() noexcept;

 private:
  friend class PendingRun;
  using Compiled = std::shared_ptr<CompiledGraph>;
  struct Load {
    const void* stream = nullptr;
    ::ge::AllocatorPtr allocator;
    bool operator==(const Load&) const = default;
  };

  std::shared_future<Compiled> compiling() const;
  bool is_loaded(const void* stream, const FindAllocator& find) const;
  Compiled compiled() const;
  Gate::Run enter();
  // While it exists, no run is in progress.
  Gate::Change begin_change();
  // To be called in a change.
  void use_allocator(const void* stream, const FindAllocator& find);

  const std::string name_;
  const std::shared_ptr<const SerialisedModel> model_;
  const EngineOptions options_;
  Gate gate_;
  mutable std::mutex mutex_;  // guards what follows
  std::shared_future<Compiled> compiled_;
  std::optional<Load> loaded_;   // the last one
  std::optional<Load> loading_;  // the one that is being done
};

}  // namespace npugraph::ge
