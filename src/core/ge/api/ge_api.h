// SPDX-License-Identifier: Apache-2.0
// The engine: compiles and runs graphs of Ascend IR. This header is all of its C++ API; docs/api/ge_engine.md describes
// it.
//
// Functions return a Status; a failure leaves everything as it was, so that the right call can follow. All functions
// are thread-safe unless they say something else.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ge/api/allocator.h"
#include "ge/api/graph.h"
#include "ge/api/session.h"
#include "ge/api/summary.h"
#include "ge/api/tensor.h"
#include "ge/api/types.h"

namespace ge {

// Has to be called before functions of sessions. A second call changes nothing. `options` hold for all sessions that do
// not say something else. PARAM_INVALID for a value that is not allowed.
Status GEInitialize(const std::map<AscendString, AscendString>& options);
// GE_SESSIONS_EXIST while there are sessions.
Status GEFinalize();

// The message of the last call that failed in the calling thread. Clears it.
std::string GEGetErrorMsg();
AscendString GEGetErrorMsgV2();
// Warnings of the calls in the calling thread, one on each line. Clears them.
std::string GEGetWarningMsg();
AscendString GEGetWarningMsgV2();

}  // namespace ge

// Functions with C linkage. Their arguments are those of C++.
extern "C" {

// Session::LoadGraph() and Session::ExecuteGraphWithStreamAsync().
ge::Status GeSessionLoadGraph(ge::Session& session, uint32_t graph_id,
                              const std::map<ge::AscendString, ge::AscendString>& options, void* stream);
ge::Status GeSessionExecuteGraphWithStreamAsync(ge::Session& session, uint32_t graph_id, void* stream,
                                                const std::vector<ge::Tensor>& inputs,
                                                std::vector<ge::Tensor>& outputs);

// Writes the tasks of a compiled graph to a file in the JSON format of chrome://tracing. Each stream is a thread, on
// which each task takes a microsecond in its order; `operators` are those of the model that the task computes.
// GE_GRAPH_NOT_COMPILED before CompileGraph(), PARAM_INVALID if the file cannot be written.
ge::Status GeSessionGraphDebugJSONPrint(ge::Session& session, uint32_t graph_id, const char* path);

// The inputs, outputs and attributes of an operator of Ascend IR, in order. The second words are "required", "optional"
// or "dynamic", and for attributes their type, such as "Int" or "ListFloat". PARAM_INVALID if there is no such
// operator.
ge::Status GetRegisteredIrDef(const char* op_type, std::vector<std::pair<ge::AscendString, ge::AscendString>>& inputs,
                              std::vector<std::pair<ge::AscendString, ge::AscendString>>& outputs,
                              std::vector<std::pair<ge::AscendString, ge::AscendString>>& attrs);

}  // extern "C"
