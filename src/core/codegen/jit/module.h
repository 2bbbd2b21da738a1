// SPDX-License-Identifier: Apache-2.0
// LLVM modules under construction, set up for a target.
#pragma once

#include <memory>
#include <string_view>

#include <llvm/IR/Function.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include "target/target.h"

namespace npugraph::codegen {

// A module in a context of its own: contexts are not thread-safe. Values and types made in it die with it.
struct IrModule {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
};

// An empty module with the data layout of the target.
IrModule make_ir_module(std::string_view name, const target::Target& target);

// Adds a function without a body and with the attributes that generated code has: the target's instruction sets, no
// unwinding. External functions can be found in the machine code by name; internal ones are called by the module alone.
llvm::Function* add_function(llvm::Module& module, const target::Target& target, std::string_view name,
                             llvm::FunctionType* type, bool external = true);

// The type of functions that return nothing and take pointers ('p') and i64 ('i').
llvm::FunctionType* function_type(llvm::LLVMContext& context, std::string_view arguments);

}  // namespace npugraph::codegen
