// SPDX-License-Identifier: Apache-2.0
// A graph of Ascend IR: the bytes of a ModelDef message, as in `.air` files.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ge/api/types.h"

namespace npugraph::ge {
struct SerialisedModel;
}  // namespace npugraph::ge

namespace ge {

// An operator of a graph.
class GNode {
 public:
  GNode(AscendString name, AscendString type) : name_(std::move(name)), type_(std::move(type)) {}
  Status GetName(AscendString& name) const;
  Status GetType(AscendString& type) const;

 private:
  AscendString name_;
  AscendString type_;
};

// A copy shares the bytes, which never change; functions that load set others. Not thread-safe, like a vector.
class Graph {
 public:
  Graph() = default;  // empty until something is loaded
  explicit Graph(const char* name) : name_(name) {}

  // Reads the model; the graph has the name that it was given, else that of the first graph of the model. On failure
  // nothing changes: PARAM_INVALID if the file cannot be read, GE_GRAPH_INVALID if the bytes are no ModelDef.
  // A file is mapped, and must keep its content as long as there are copies of the graph. So are constants in files of
  // their own (FileConstant), whose paths are relative to the folder of the model.
  Status LoadFromFile(const char* path);
  // Copies the bytes. Paths of FileConstant are relative to the working directory.
  Status LoadFromSerializedModelArray(const void* serialized_model, size_t size);
  // Constants in files of their own stay there. PARAM_INVALID if the graph is empty or the file cannot be written.
  Status SaveToFile(const char* path) const;
  // Becomes a graph with bytes of its own. PARAM_INVALID if `source` is empty.
  Status CopyFrom(const Graph& source);

  Status GetName(AscendString& name) const;
  // The operators in the order of the model; none if the graph is empty.
  std::vector<GNode> GetAllNodes() const;
  bool IsValid() const { return model_ != nullptr; }

  // For the engine: null if the graph is empty.
  const std::shared_ptr<const npugraph::ge::SerialisedModel>& serialised() const { return model_; }

 private:
  AscendString name_;
  std::shared_ptr<const npugraph::ge::SerialisedModel> model_;
};

}  // namespace ge
