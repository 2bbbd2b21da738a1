// SPDX-License-Identifier: Apache-2.0
// Identifies builds by the GNU build id that the linker wrote, a hash of everything that it linked.
#pragma once

#include <string>

namespace npugraph::codegen {

// The build id of the program or shared library that holds `address`; empty if there is none.
std::string build_id_of(const void* address);

// The build id of the one that holds the code generator. Looked up once.
const std::string& build_id();

}  // namespace npugraph::codegen
