// SPDX-License-Identifier: Apache-2.0
#include "ge/api/summary.h"

#include <string>

#include "ge/api/run/api_error.h"
#include "ge/api/run/compiled_graph.h"

namespace ge {
namespace {

using npugraph::ge::api_call;

size_t feature_bytes(const npugraph::ge::GraphFacts& facts) {
  if (!facts.is_static())
    throw npugraph::ge::ApiError(GE_GRAPH_NOT_STATIC, "sizes of inputs decide how much feature memory the graph needs");
  return static_cast<size_t>(*facts.feature_bytes);
}

}  // namespace

AscendString LogicalStreamAllocationInfo::ToStringInfo() const {
  std::string text = npugraph::cat("stream ", id_, ":");
  AscendString part;
  for (const GNode& task : tasks_) {
    task.GetType(part);
    text += npugraph::cat(&task == tasks_.data() ? " " : "; ", part.GetString());
    task.GetName(part);
    if (part.GetLength() > 0) text += npugraph::cat(" (", part.GetString(), ")");
  }
  return text.c_str();
}

bool CompiledGraphSummary::IsStatic() const { return facts_->is_static(); }

Status CompiledGraphSummary::GetConstMemorySize(size_t& size) const {
  size = static_cast<size_t>(facts_->constant_bytes);
  return SUCCESS;
}

Status CompiledGraphSummary::GetFeatureMemorySize(size_t& size) const {
  return api_call("CompiledGraphSummary::GetFeatureMemorySize", [&] { size = feature_bytes(*facts_); });
}

Status CompiledGraphSummary::GetFixedFeatureMemorySize(size_t& size) const {
  return api_call("CompiledGraphSummary::GetFixedFeatureMemorySize", [&] {
    feature_bytes(*facts_);
    size = 0;
  });
}

Status CompiledGraphSummary::GetRefreshableFeatureMemorySize(size_t& size) const {
  return api_call("CompiledGraphSummary::GetRefreshableFeatureMemorySize", [&] { size = feature_bytes(*facts_); });
}

Status CompiledGraphSummary::GetFeatureMemoryBaseRefreshable(bool& refreshable) const {
  refreshable = facts_->is_static();
  return SUCCESS;
}

std::vector<FeatureMemoryPtr> CompiledGraphSummary::GetAllFeatureMemoryTypeSize() const {
  if (!facts_->is_static()) return {};
  return {std::make_shared<FeatureMemory>(MemoryType::MEMORY_TYPE_DEFAULT, feature_bytes(*facts_), false)};
}

Status CompiledGraphSummary::GetStreamNum(size_t& num) const {
  num = facts_->tasks_of_streams.size();
  return SUCCESS;
}

Status CompiledGraphSummary::GetEventNum(size_t& num) const {
  num = facts_->events;
  return SUCCESS;
}

Status CompiledGraphSummary::GetStreamAllocationSummary(StreamAllocationSummaryPtr& summary) const {
  std::vector<LogicalStreamAllocationInfo> streams;
  for (const auto& [id, tasks] : facts_->tasks_of_streams) streams.emplace_back(id, tasks);
  summary = std::make_shared<StreamAllocationSummary>(
      StreamAllocationSummary::Streams{{facts_->name.c_str(), std::move(streams)}});
  return SUCCESS;
}

Status CompiledGraphSummary::GetOutputShapes(std::vector<Shape>& shapes) const {
  shapes = facts_->output_shapes;
  return SUCCESS;
}

Status CompiledGraphSummary::GetOutputDtypes(std::vector<DataType>& types) const {
  types = facts_->output_types;
  return SUCCESS;
}

Status CompiledGraphSummary::GetIOIndexesWithSameAddr(std::vector<std::pair<uint32_t, uint32_t>>& indexes) const {
  indexes = facts_->same_addresses;
  return SUCCESS;
}

}  // namespace ge
