// SPDX-License-Identifier: Apache-2.0
// Graphs by their ids: added, compiled, given memory, loaded, run, and the streams that order runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ge/api/allocator.h"
#include "ge/api/graph.h"
#include "ge/api/summary.h"
#include "ge/api/tensor.h"
#include "ge/api/types.h"

namespace npugraph::ge {
class SessionState;
// What a stream is on this host: a queue with one thread of its own.
class StreamQueue;
}  // namespace npugraph::ge

namespace ge {

// Gets the status and the outputs of a run, in a thread of the session. GEGetErrorMsg() has the message there, and
// GEGetWarningMsg() the warnings. Must not throw, and must not destroy the session.
using RunAsyncCallback = std::function<void(Status, std::vector<Tensor>&)>;

// Thread-safe. Functions that name a graph fail with GE_NOT_INITIALIZED before GEInitialize(), and with
// GE_GRAPH_NOT_EXIST if the session has no graph of this id.
class Session {
 public:
  // If a value in `options` is not allowed, every function fails with PARAM_INVALID and says which.
  explicit Session(const std::map<AscendString, AscendString>& options);
  // Waits for all runs, and gives all memory back.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  uint64_t GetSessionId() const;

  // Shares the bytes of the graph. GE_GRAPH_EXISTS if the id is taken; PARAM_INVALID if the graph is empty.
  Status AddGraph(uint32_t graph_id, const Graph& graph);
  Status AddGraph(uint32_t graph_id, const Graph& graph, const std::map<std::string, std::string>& options);
  Status AddGraph(uint32_t graph_id, const Graph& graph, const std::map<AscendString, AscendString>& options);
  // Copies the bytes, so that the file from which the graph came may change.
  Status AddGraphWithCopy(uint32_t graph_id, const Graph& graph);
  Status AddGraphWithCopy(uint32_t graph_id, const Graph& graph, const std::map<AscendString, AscendString>& options);
  // Waits for the runs of the graph and gives its memory back. Runs that come later do not find it.
  Status RemoveGraph(uint32_t graph_id);

  // Compiles the graph, and leaves its memory to the caller. Reads the operators before it returns: GE_GRAPH_INVALID
  // names the first one that is not allowed. Machine code is made in another thread; what needs it waits, and fails
  // with GE_GRAPH_INVALID if there is none.
  Status CompileGraph(uint32_t graph_id);
  // Compiles the graph, waits for that, and loads it with memory of the engine. `inputs` may be empty; else the graph
  // is prepared for their shapes, and their data is not read.
  Status BuildGraph(uint32_t graph_id, const std::vector<Tensor>& inputs);
  // Null on failure. GE_GRAPH_NOT_COMPILED before CompileGraph().
  CompiledGraphSummaryPtr GetCompiledGraphSummary(uint32_t graph_id);
  // Whether the graph was not compiled yet, or could not be. True for a graph that does not exist.
  bool IsGraphNeedRebuild(uint32_t graph_id);

  // The four functions below may be called at any time after CompileGraph(), and again: they wait for the runs that
  // began before. Memory is aligned to 64 bytes, has at least the size of the summary and belongs to the graph until it
  // gets other memory or is removed. Null with size 0 means memory of the engine again. GE_GRAPH_NOT_COMPILED before
  // CompileGraph(), PARAM_INVALID for memory that does not fit.
  //
  // Copies the constants there; runs read them there.
  Status SetGraphConstMemoryBase(uint32_t graph_id, const void* memory, size_t size);
  // Runs keep all that lives between operators there, one run at a time. GE_GRAPH_NOT_STATIC if sizes of inputs decide
  // how much there is.
  Status UpdateGraphFeatureMemoryBase(uint32_t graph_id, const void* memory, size_t size);
  // The same for the part that may move, which is all of it, and for the part that may not, which has 0 bytes.
  Status UpdateGraphRefreshableFeatureMemoryBase(uint32_t graph_id, const void* memory, size_t size);
  Status SetGraphFixedFeatureMemoryBase(uint32_t graph_id, const void* memory, size_t size);

  // Memory that the user does not give comes from the external allocator of `stream` from now on, if there is one:
  // const and feature memory, and outputs. A graph that is not loaded is loaded by its first run, on the stream of
  // that. GE_GRAPH_NOT_COMPILED before CompileGraph(). Options have no effect here.
  Status LoadGraph(uint32_t graph_id, const std::map<AscendString, AscendString>& options, void* stream);

  // Runs compile and load the graph if nothing did before. They write into inputs only if the graph assigns to them.
  // PARAM_INVALID if tensors do not fit the graph.
  //
  // Returns when the graph has run, with outputs in memory of the engine.
  Status RunGraph(uint32_t graph_id, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs);
  // Returns at once. Runs of a session that begin by this function run in order.
  Status RunGraphAsync(uint32_t graph_id, const std::vector<Tensor>& inputs, RunAsyncCallback callback);
  // Puts the run on a stream (Stream). `outputs` is empty or has a tensor for each output: one with data is
  // written there; the others get memory of the engine before the function returns. Elements are there after
  // Stream::Synchronize(), which also says whether the run failed.
  Status RunGraphWithStreamAsync(uint32_t graph_id, void* stream, const std::vector<Tensor>& inputs,
                                 std::vector<Tensor>& outputs);
  // The same for a graph that was loaded on this stream: GE_GRAPH_NOT_LOADED if it was not.
  Status ExecuteGraphWithStreamAsync(uint32_t graph_id, void* stream, const std::vector<Tensor>& inputs,
                                     std::vector<Tensor>& outputs);

  // The allocator of graphs that are loaded on `stream` from now on; null: of calls without a stream. The session keeps
  // it alive until UnregisterExternalAllocator(), which has to come before the end of the stream. PARAM_INVALID if it
  // is null or if the stream has one.
  Status RegisterExternalAllocator(const void* stream, AllocatorPtr allocator);
  // Graphs that are loaded on the stream give back what they have from it: waits for their runs. Outputs keep theirs
  // until they are destroyed. PARAM_INVALID if the stream has none.
  Status UnregisterExternalAllocator(const void* stream);

  // For the engine.
  const std::shared_ptr<npugraph::ge::SessionState>& state() const { return state_; }

 private:
  std::shared_ptr<npugraph::ge::SessionState> state_;
};

// Runs that are put on a stream are done one after the other, in the order in which they were put there. Runs on
// different streams may run at the same time. Functions that take a `void* stream` take the address of such an object;
// null means no stream: the run is done when the function returns. Thread-safe.
class Stream {
 public:
  Stream();
  // Waits for the runs on it.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Waits for the runs that were put on it before. Returns the status of the first one that failed since the last call,
  // with its message; GEGetWarningMsg() has the warnings of these runs.
  Status Synchronize();

 private:
  std::shared_ptr<npugraph::ge::StreamQueue> queue_;
};

}  // namespace ge
