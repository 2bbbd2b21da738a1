// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <string_view>

namespace npugraph {

namespace {

constexpr std::string_view kBegin = "internal error: ";

}  // namespace

std::string internal_error_text(const std::string& what) { return cat(kBegin, what, ". This is a bug in npugraph."); }

InternalError met_at(const std::string& where, const InternalError& error) {
  const std::string_view what = error.what();
  return InternalError(cat(kBegin, where, ": ", what.starts_with(kBegin) ? what.substr(kBegin.size()) : what));
}

void fail_check(const char* condition, const char* file, int line, const std::string& message) {
  throw InternalError(internal_error_text(
      cat(message.empty() ? "invariant broken" : message, " (check `", condition, "` at ", file, ":", line, ")")));
}

}  // namespace npugraph
