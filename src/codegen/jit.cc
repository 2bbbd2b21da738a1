// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>

#include "base/error.h"
#include "codegen/ir_module.h"
#include "codegen/target_machine.h"

namespace npugraph::codegen {
namespace {

void verify([[maybe_unused]] const llvm::Module& module) {
#ifndef NDEBUG
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  NG_CHECK(!llvm::verifyModule(module, &stream), problems);
#endif
}

llvm::SmallVector<char, 0> run_backend(const IrModule& ir, const target::Target& target, Effort effort,
                                       llvm::CodeGenFileType type) {
  verify(*ir.module);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  const TargetMachineLease machine(target, effort);
  llvm::legacy::PassManager passes;
  const bool refused = machine->addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true);
  NG_CHECK(!refused, "LLVM cannot write this kind of file");
  passes.run(*ir.module);
  return bytes;
}

}  // namespace

std::shared_ptr<const MachineCode> compile(IrModule ir, const target::Target& target, Effort effort) {
  const auto bytes = run_backend(ir, target, effort, llvm::CodeGenFileType::ObjectFile);
  return load_object({bytes.begin(), bytes.end()});
}

std::string assembly(IrModule ir, const target::Target& target, Effort effort) {
  const auto bytes = run_backend(ir, target, effort, llvm::CodeGenFileType::AssemblyFile);
  return {bytes.begin(), bytes.end()};
}

}  // namespace npugraph::codegen
