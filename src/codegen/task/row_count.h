// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace npugraph::codegen {

// Whether calls of a task may differ in their number of rows: of A, or of queries. All machine code is then made when the
// first one is bound, so that no later call waits for a compiler.
enum class RowCount : uint8_t { kFixed, kVaries };

}  // namespace npugraph::codegen
