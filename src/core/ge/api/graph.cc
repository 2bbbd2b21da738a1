// SPDX-License-Identifier: Apache-2.0
#include "ge/api/graph.h"

#include <utility>

#include "base/files.h"
#include "ge/api/run/api_error.h"
#include "ge/api/run/serialised_model.h"
#include "ge/engine/compile.h"

namespace ge {

using npugraph::ge::api_call;
using npugraph::ge::ApiError;

Status GNode::GetName(AscendString& name) const {
  name = name_;
  return SUCCESS;
}

Status GNode::GetType(AscendString& type) const {
  type = type_;
  return SUCCESS;
}

Status Graph::LoadFromFile(const char* path) {
  return api_call("Graph::LoadFromFile", [&] {
    if (path == nullptr) throw ApiError(PARAM_INVALID, "the path is null");
    model_ = npugraph::ge::mapped_model(path);
  });
}

Status Graph::LoadFromSerializedModelArray(const void* serialized_model, size_t size) {
  return api_call("Graph::LoadFromSerializedModelArray", [&] {
    if (serialized_model == nullptr) throw ApiError(PARAM_INVALID, "the address of the model is null");
    model_ = npugraph::ge::copy_of_bytes({static_cast<const std::byte*>(serialized_model), size}, "");
  });
}

Status Graph::SaveToFile(const char* path) const {
  return api_call("Graph::SaveToFile", [&] {
    if (path == nullptr) throw ApiError(PARAM_INVALID, "the path is null");
    npugraph::AtomicFile file(path, "a graph");
    file.write(npugraph::ge::model_in(*this)->bytes);
    file.commit();
  });
}

Status Graph::CopyFrom(const Graph& source) {
  return api_call("Graph::CopyFrom", [&] {
    const auto model = npugraph::ge::model_in(source);
    model_ = npugraph::ge::copy_of_bytes(model->bytes, model->folder);
    name_ = source.name_;
  });
}

Status Graph::GetName(AscendString& name) const {
  const bool named = name_.GetLength() > 0 || !IsValid();
  name = named ? name_ : AscendString(npugraph::ge::graph_of(model_->model).name.c_str());
  return SUCCESS;
}

std::vector<GNode> Graph::GetAllNodes() const {
  std::vector<GNode> nodes;
  if (!IsValid()) return nodes;
  for (const auto& op : npugraph::ge::graph_of(model_->model).ops) nodes.emplace_back(op.name.c_str(), op.type.c_str());
  return nodes;
}

}  // namespace ge
