// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

namespace npugraph {

void fail_check(const char* condition, const char* file, int line, const std::string& message) {
  std::string text = cat("internal error: ", message.empty() ? "invariant broken" : message, " (check `", condition,
                         "` at ", file, ":", line, "). This is a bug in npugraph; please report it.");
  throw InternalError(text);
}

}  // namespace npugraph
