// SPDX-License-Identifier: Apache-2.0
#include "ge/api/ge_api.h"

#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "ge/api/run/api_error.h"
#include "ge/api/run/session_state.h"
#include "ge/ir/registry.h"

namespace ge {

using npugraph::ge::api_call;

Status GEInitialize(const std::map<AscendString, AscendString>& options) {
  return api_call("GEInitialize", [&] { npugraph::ge::initialise(options); });
}

Status GEFinalize() { return api_call("GEFinalize", npugraph::ge::finalise); }

std::string GEGetErrorMsg() { return npugraph::ge::take_error_message(); }
AscendString GEGetErrorMsgV2() { return AscendString(GEGetErrorMsg().c_str()); }
std::string GEGetWarningMsg() { return npugraph::ge::take_warnings(); }
AscendString GEGetWarningMsgV2() { return AscendString(GEGetWarningMsg().c_str()); }

}  // namespace ge

namespace {

using npugraph::ge::api_call;
using npugraph::ge::ApiError;
using Words = std::vector<std::pair<ge::AscendString, ge::AscendString>>;

// In the format of chrome://tracing.
std::string json_of(const npugraph::ge::GraphFacts& facts) {
  nlohmann::json events = nlohmann::json::array();
  for (const auto& [stream, tasks] : facts.tasks_of_streams) {
    const nlohmann::json place = {{"pid", 0}, {"tid", stream}};
    events.push_back({{"ph", "M"}, {"name", "thread_name"}, {"args", {{"name", npugraph::cat("stream ", stream)}}}});
    events.back().update(place);
    int64_t at = 0;
    for (const ge::GNode& task : tasks) {
      ge::AscendString operators;
      ge::AscendString type;
      task.GetName(operators);
      task.GetType(type);
      events.push_back({{"ph", "X"}, {"name", type.GetString()}, {"cat", "task"}, {"ts", at++}, {"dur", 1}});
      events.back()["args"] = {{"operators", operators.GetString()}};
      events.back().update(place);
    }
  }
  // Names may hold bytes that are no UTF-8; those are replaced.
  return nlohmann::json({{"traceEvents", std::move(events)}})
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const char* name_of(npugraph::ge::Arity arity) {
  using npugraph::ge::Arity;
  return arity == Arity::kRequired ? "required" : arity == Arity::kOptional ? "optional" : "dynamic";
}

Words words_of(const std::vector<npugraph::ge::IrTensor>& tensors) {
  Words words;
  for (const npugraph::ge::IrTensor& tensor : tensors) words.emplace_back(tensor.name.c_str(), name_of(tensor.arity));
  return words;
}

}  // namespace

ge::Status GeSessionLoadGraph(ge::Session& session, uint32_t graph_id,
                              const std::map<ge::AscendString, ge::AscendString>& options, void* stream) {
  return session.LoadGraph(graph_id, options, stream);
}

ge::Status GeSessionExecuteGraphWithStreamAsync(ge::Session& session, uint32_t graph_id, void* stream,
                                                const std::vector<ge::Tensor>& inputs,
                                                std::vector<ge::Tensor>& outputs) {
  return session.ExecuteGraphWithStreamAsync(graph_id, stream, inputs, outputs);
}

ge::Status GeSessionGraphDebugJSONPrint(ge::Session& session, uint32_t graph_id, const char* path) {
  return api_call("GeSessionGraphDebugJSONPrint", [&] {
    if (path == nullptr) throw ApiError(ge::PARAM_INVALID, "the path is null");
    const std::string text = json_of(*session.state()->graph(graph_id)->facts());
    npugraph::AtomicFile file(path, "the tasks");
    file.write(std::as_bytes(std::span(text)));
    file.commit();
  });
}

ge::Status GetRegisteredIrDef(const char* op_type, Words& inputs, Words& outputs, Words& attrs) {
  return api_call("GetRegisteredIrDef", [&] {
    const npugraph::ge::IrOperator* op = op_type == nullptr ? nullptr : npugraph::ge::find_operator(op_type);
    if (op == nullptr)
      throw ApiError(ge::PARAM_INVALID,
                     npugraph::cat("Ascend IR has no operator '", op_type == nullptr ? "" : op_type, "'"));
    inputs = words_of(op->inputs);
    outputs = words_of(op->outputs);
    attrs.clear();
    for (const npugraph::ge::IrAttr& attr : op->attrs)
      attrs.emplace_back(attr.name.c_str(), std::string(npugraph::ge::name_of(attr.kind)).c_str());
  });
}
