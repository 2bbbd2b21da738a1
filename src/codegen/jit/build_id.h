// SPDX-License-Identifier: Apache-2.0
// Identifies the build of the program or shared library that this code is a part of.
#pragma once

#include <string>

namespace npugraph::codegen {

// The GNU build id that the linker wrote, a hash of everything that it linked; empty if there is none. Looked up once.
const std::string& build_id();

}  // namespace npugraph::codegen
