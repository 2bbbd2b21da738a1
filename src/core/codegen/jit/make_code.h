// SPDX-License-Identifier: Apache-2.0
// Makes machine code by the text that it is made of: reads it from disk if an earlier process left it there, else has
// LLVM make it. Callers look into the caches of the process first.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "codegen/jit/jit.h"
#include "codegen/jit/module.h"
#include "codegen/jit/object_cache.h"
#include "target/target.h"

namespace npugraph::codegen {

// `text` contains the kind of the code and all that the code depends on except the target; `emit` makes the module.
// Counts builds and loads (builds.h). Thread-safe.
std::shared_ptr<const MachineCode> make_code(const target::Target& target, std::string_view text,
                                             const std::function<IrModule()>& emit,
                                             const ObjectCache& objects = object_cache());

// Machine code of pieces that many tasks share: made on first use, kept as long as the process lives. Thread-safe.

// The code of this name for the target; `fill` adds its functions to an empty module the first time. Names are few and
// contain all that the code depends on except the target.
const MachineCode& stored_code(const target::Target& target, std::string_view name,
                               const std::function<void(llvm::Module&)>& fill);

}  // namespace npugraph::codegen
