// SPDX-License-Identifier: Apache-2.0
#include "ge/api/ge_api.h"

#include "ge/api/run/api_error.h"
#include "ge/api/run/session_state.h"

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
