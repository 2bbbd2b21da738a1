// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace npugraph::fuzz {

// Serialised models that the engine compiles and runs. Together they have most kinds of operators.
std::vector<std::string> air_seeds();

}  // namespace npugraph::fuzz
