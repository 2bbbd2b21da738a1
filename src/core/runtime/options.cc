// SPDX-License-Identifier: Apache-2.0
#include "runtime/options.h"

#include "base/error.h"

namespace npugraph::runtime {

CaptureErrorMode parse_capture_error_mode(const std::string& mode) {
  if (mode == "global") return CaptureErrorMode::kGlobal;
  if (mode == "thread_local") return CaptureErrorMode::kThreadLocal;
  if (mode == "relaxed") return CaptureErrorMode::kRelaxed;
  throw UserError(cat("capture_error_mode is \"global\", \"thread_local\" or \"relaxed\", got \"", mode, "\""));
}

}  // namespace npugraph::runtime
