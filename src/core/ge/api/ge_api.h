// SPDX-License-Identifier: Apache-2.0
// The engine: compiles and runs graphs of Ascend IR. This header is all of its C++ API; docs/api/ge_engine.md describes
// it.
//
// Functions return a Status; a failure leaves everything as it was, so that the right call can follow. All functions
// are thread-safe unless they say something else.
#pragma once

#include <map>
#include <string>

#include "ge/api/allocator.h"
#include "ge/api/c_functions.h"
#include "ge/api/graph.h"
#include "ge/api/session.h"
#include "ge/api/stream.h"
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
