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
// Counts builds and loads (build_count.h). Thread-safe.
std::shared_ptr<const MachineCode> make_code(const target::Target& target, std::string_view text,
                                             const std::function<IrModule()>& emit,
                                             const ObjectCache& objects = object_cache());

}  // namespace npugraph::codegen
