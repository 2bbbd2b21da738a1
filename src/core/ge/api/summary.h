// SPDX-License-Identifier: Apache-2.0
// What a compile tells of a graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ge/api/graph.h"
#include "ge/api/tensor.h"
#include "ge/api/types.h"

namespace npugraph::ge {
struct GraphFacts;
}

namespace ge {

// Feature memory of one type.
class FeatureMemory {
 public:
  FeatureMemory(MemoryType type, size_t size, bool is_fixed) : type_(type), size_(size), is_fixed_(is_fixed) {}
  MemoryType GetType() const { return type_; }
  size_t GetSize() const { return size_; }
  bool IsFixed() const { return is_fixed_; }

 private:
  MemoryType type_;
  size_t size_;
  bool is_fixed_;
};
using FeatureMemoryPtr = std::shared_ptr<FeatureMemory>;

// One stream of a graph, and the tasks that run on it.
class LogicalStreamAllocationInfo {
 public:
  LogicalStreamAllocationInfo(int64_t id, std::vector<GNode> tasks) : id_(id), tasks_(std::move(tasks)) {}
  int64_t GetLogicalStreamId() const { return id_; }
  // Streams at run time: each runs as one.
  size_t GetPhysicalStreamNum() const { return 1; }
  // The tasks in their order. A name lists the operators of the model that the task computes, with commas; a type is
  // that of the task.
  const std::vector<GNode>& GetAllNodes() const { return tasks_; }
  // The same as one line.
  AscendString ToStringInfo() const;

 private:
  int64_t id_;
  std::vector<GNode> tasks_;
};

class StreamAllocationSummary {
 public:
  using Streams = std::map<AscendString, std::vector<LogicalStreamAllocationInfo>>;
  explicit StreamAllocationSummary(Streams streams) : streams_(std::move(streams)) {}
  // The streams of each graph, ascending, by the name of the graph.
  const Streams& GetAllLogicalStreamInfos() const { return streams_; }

 private:
  Streams streams_;
};
using StreamAllocationSummaryPtr = std::shared_ptr<StreamAllocationSummary>;

// Words: *const memory* holds the weights, *feature memory* all that lives between two operators. Sizes are in bytes.
// Immutable, so thread-safe.
class CompiledGraphSummary {
 public:
  explicit CompiledGraphSummary(std::shared_ptr<const npugraph::ge::GraphFacts> facts) : facts_(std::move(facts)) {}

  // Whether the sizes of all tensors are known.
  bool IsStatic() const;
  Status GetConstMemorySize(size_t& size) const;
  // GE_GRAPH_NOT_STATIC, in this function and the next two, if the sizes of inputs decide.
  Status GetFeatureMemorySize(size_t& size) const;
  // The part that must stay where it is: 0 in this engine.
  Status GetFixedFeatureMemorySize(size_t& size) const;
  // The part that may move between runs: all of it.
  Status GetRefreshableFeatureMemorySize(size_t& size) const;
  Status GetFeatureMemoryBaseRefreshable(bool& refreshable) const;
  // Empty if the graph is not static.
  std::vector<FeatureMemoryPtr> GetAllFeatureMemoryTypeSize() const;
  // Streams of the graph that run at the same time, and the waits of one for another.
  Status GetStreamNum(size_t& num) const;
  Status GetEventNum(size_t& num) const;
  Status GetStreamAllocationSummary(StreamAllocationSummaryPtr& summary) const;
  // Sizes that inputs decide are -1.
  Status GetOutputShapes(std::vector<Shape>& shapes) const;
  Status GetOutputDtypes(std::vector<DataType>& types) const;
  // Pairs of an input and an output that are the same tensor. An output of such a pair that has the address of the
  // input is not copied.
  Status GetIOIndexesWithSameAddr(std::vector<std::pair<uint32_t, uint32_t>>& indexes) const;

 private:
  std::shared_ptr<const npugraph::ge::GraphFacts> facts_;
};
using CompiledGraphSummaryPtr = std::shared_ptr<CompiledGraphSummary>;

}  // namespace ge
