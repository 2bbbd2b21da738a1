// SPDX-License-Identifier: Apache-2.0
// A graph that was compiled, and the memory in which it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/pipeline.h"
#include "ge/api/allocator.h"
#include "ge/api/graph.h"
#include "ge/api/run/call_tensors.h"
#include "ge/api/run/graph_memory.h"
#include "ge/api/run/options.h"
#include "ge/api/tensor.h"
#include "ir/graph.h"
#include "program/program.h"
#include "runtime/executable.h"

namespace npugraph::ge {

// What a compile tells of a graph.
struct GraphFacts {
  int64_t constant_bytes = 0;
  std::optional<int64_t> feature_bytes;  // nullopt: sizes of inputs decide
  std::string name;
  std::map<int64_t, std::vector<::ge::GNode>> tasks_of_streams;  // as in LogicalStreamAllocationInfo
  size_t events = 0;
  std::vector<::ge::Shape> output_shapes;
  std::vector<::ge::DataType> output_types;
  std::vector<std::pair<uint32_t, uint32_t>> same_addresses;  // input, output

  bool is_static() const { return feature_bytes.has_value(); }
};

// Runs are thread-safe; what changes memory is called while there is none.
class CompiledGraph {
 public:
  // `name` is for pools() and the task log. ApiError GE_GRAPH_INVALID if no code can be made.
  CompiledGraph(ir::Graph graph, const std::string& name, const EngineOptions& options);

  const GraphFacts& facts() const { return *facts_; }
  std::shared_ptr<const GraphFacts> shared_facts() const { return facts_; }
  const program::Program& program() const { return *program_; }
  BlockHost& host() { return host_; }

  // Constants are copied to `base`, intermediate results lie in `block`: aligned memory of the user that is large
  // enough. Null and empty: the engine has memory of its own. If it cannot get it, an exception, and nothing has
  // changed.
  void use_constants(std::byte* base);
  void use_features(std::span<std::byte> block);
  // The allocator of memory that the user does not give; null: the process.
  void use_allocator(const ::ge::AllocatorPtr& allocator);

  // Gives all memory back to the user, the allocator and the process. No run may follow.
  void release_memory();

  // Captures the sizes of these inputs, whose data is not read.
  void prepare(const CallInputs& inputs);
  // ApiError if it fails.
  void run(CallInputs& inputs, CallOutputs& outputs);

 private:
  GraphFacts find_facts() const;
  UserBlock block_for_constants(const ::ge::AllocatorPtr& allocator) const;
  // Copies constants to the block; without one, runs read the bytes of the model.
  void keep_constants(UserBlock block);

  const CoreLimits limits_;
  std::shared_ptr<const program::Program> program_;
  GraphMemory memory_;
  BlockHost host_;
  ::ge::AllocatorPtr allocator_;
  bool constants_given_ = false;
  UserBlock constants_;  // of the allocator
  std::shared_ptr<runtime::Executable> executable_;
  std::shared_ptr<const GraphFacts> facts_;
  std::mutex one_run_;  // at a time, in a block of the user
};

}  // namespace npugraph::ge
