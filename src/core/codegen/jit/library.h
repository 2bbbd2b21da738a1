// SPDX-License-Identifier: Apache-2.0
// The functions outside of generated code that it may call.
#pragma once

#include <string_view>

namespace npugraph::codegen {

// The address of a function of the C library by its name ("sinf", "memcpy"), null if generated code may not call it.
// "npugraph_erfc" is erfc of double within 1 ulp.
void* library_function(std::string_view name);

}  // namespace npugraph::codegen
