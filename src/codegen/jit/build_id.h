// SPDX-License-Identifier: Apache-2.0
// Which build of the program or shared library this code is a part of.
#pragma once

#include <string>

namespace npugraph::codegen {

// The GNU build id that the linker wrote, a hash of all that it linked; empty if there is none. Found once.
const std::string& build_id();

}  // namespace npugraph::codegen
