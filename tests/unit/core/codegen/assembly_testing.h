// SPDX-License-Identifier: Apache-2.0
// Assembly text of pieces of generated code, to see which instructions a processor gets.
#pragma once

#include <functional>
#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "codegen/jit/jit.h"
#include "codegen/jit/module.h"
#include "target/target.h"

namespace npugraph::codegen {

// A regular expression for the widest vectors of f32 or i32 that code for the target has.
inline std::string vectors_of(const target::Target& target) {
  if (target.scalable) return "z[0-9]+\\.s";
  if (target.arch == target::Arch::kAArch64) return "v[0-9]+\\.4s";
  return target.vector_bits == 512 ? "%zmm[0-9]+" : target.vector_bits == 256 ? "%ymm[0-9]+" : "%xmm[0-9]+";
}

// Of one function, whose body `emit` fills in.
inline std::string assembly_of(const target::Target& target, llvm::FunctionType* (*type)(llvm::LLVMContext&),
                               const std::function<void(llvm::Function*)>& emit) {
  IrModule ir = make_ir_module("test", target);
  emit(add_function(*ir.module, target, "f", type(*ir.context)));
  return assembly(std::move(ir), target);
}

// Expects a line of `text` with an instruction and, among its operands, others. Both are regular expressions.
inline void expect_instruction(const std::string& text, const std::string& instruction, const std::string& operand,
                               const target::Target& target) {
  const std::regex line(cat("\t(", instruction, ")\t[^\n]*", operand));
  EXPECT_TRUE(std::regex_search(text, line)) << target.level << ": no " << instruction << " with " << operand << " in\n"
                                             << text;
}

}  // namespace npugraph::codegen
