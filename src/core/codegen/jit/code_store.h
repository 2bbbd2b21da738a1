// SPDX-License-Identifier: Apache-2.0
// Machine code of pieces that many tasks share: made on first use, kept as long as the process lives. Thread-safe.
#pragma once

#include <functional>
#include <string_view>

#include "codegen/jit/jit.h"
#include "codegen/jit/module.h"
#include "target/target.h"

namespace npugraph::codegen {

// The code of this name for the target; `fill` adds its functions to an empty module the first time. Names are few and
// contain all that the code depends on except the target.
const MachineCode& stored_code(const target::Target& target, std::string_view name,
                               const std::function<void(llvm::Module&)>& fill);

}  // namespace npugraph::codegen
