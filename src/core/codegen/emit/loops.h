// SPDX-License-Identifier: Apache-2.0
// Loops and branches in LLVM IR.
#pragma once

#include <functional>
#include <vector>

#include <llvm/IR/IRBuilder.h>

namespace npugraph::codegen {

using Values = std::vector<llvm::Value*>;

// for (i = begin; i < end; i += step) carried = body(i, carried), over i64. Returns the values carried out of the loop
// and leaves the builder behind it.
Values emit_loop(llvm::IRBuilderBase& b, llvm::Value* begin, llvm::Value* end, int64_t step, const Values& carried,
                 const std::function<Values(llvm::Value* i, const Values& carried)>& body);

// The same without carried values.
void emit_loop(llvm::IRBuilderBase& b, llvm::Value* begin, llvm::Value* end, int64_t step,
               const std::function<void(llvm::Value* i)>& body);

// condition ? then() : otherwise(), which return the same number of values.
Values emit_if(llvm::IRBuilderBase& b, llvm::Value* condition, const std::function<Values()>& then,
               const std::function<Values()>& otherwise);

}  // namespace npugraph::codegen
