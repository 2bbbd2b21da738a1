// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

namespace npugraph {

std::string internal_error_text(const std::string& what) {
  return cat("internal error: ", what, ". This is a bug in npugraph; please report it.");
}

void fail_check(const char* condition, const char* file, int line, const std::string& message) {
  throw InternalError(internal_error_text(
      cat(message.empty() ? "invariant broken" : message, " (check `", condition, "` at ", file, ":", line, ")")));
}

}  // namespace npugraph
