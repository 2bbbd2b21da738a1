// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace npugraph::codegen {

// Whether calls of a task may differ in their number of rows (of A, or of queries). If they may, all machine code is
// made when the first call is bound, so that no later call waits for the compiler.
enum class RowCount : uint8_t { kFixed, kVaries };

}  // namespace npugraph::codegen
