// SPDX-License-Identifier: Apache-2.0
// Numbers in sentences, and parts of text.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace npugraph {

// "1 argument", "2 arguments".
template <typename Count>
std::string counted(Count count, const std::string& what) {
  return cat(count, " ", what, count == 1 ? "" : "s");
}

// `text` without spaces, tabs and carriage returns at its ends.
inline std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace npugraph
