// SPDX-License-Identifier: Apache-2.0
// Machine code by the text that it is made of: read from disk where an earlier process left it, else made by LLVM. The caches
// of the process stand before this.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "codegen/jit/jit.h"
#include "codegen/jit/module.h"
#include "codegen/jit/object_cache.h"
#include "target/target.h"

namespace npugraph::codegen {

// `text` says all that the code depends on but the target, and of which kind it is; `emit` gives the module. Counts what it
// does (build_count.h). Thread-safe.
std::shared_ptr<const MachineCode> make_code(const target::Target& target, std::string_view text,
                                             const std::function<IrModule()>& emit,
                                             const ObjectCache& objects = object_cache());

}  // namespace npugraph::codegen
