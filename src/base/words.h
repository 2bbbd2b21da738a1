// SPDX-License-Identifier: Apache-2.0
// Numbers in sentences.
#pragma once

#include <string>

#include "base/error.h"

namespace npugraph {

// "1 argument", "2 arguments".
template <typename Count>
std::string counted(Count count, const std::string& what) {
  return cat(count, " ", what, count == 1 ? "" : "s");
}

}  // namespace npugraph
