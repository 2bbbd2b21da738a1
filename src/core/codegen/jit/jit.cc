// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/jit.h"

#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "base/error.h"
#include "codegen/jit/backend.h"
#include "codegen/jit/module.h"

namespace npugraph::codegen {
namespace {

void verify([[maybe_unused]] const llvm::Module& module) {
#ifndef NDEBUG
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  NG_CHECK(!llvm::verifyModule(module, &stream), problems);
#endif
}

}  // namespace

std::shared_ptr<const MachineCode> compile(IrModule ir, const target::Target& target) {
  verify(*ir.module);
  std::vector<char> object;
  {
    const BackendLease backend(target);
    object = backend->run(*ir.module);
    // Analyses of the back end may refer to the module, so it is destroyed before the back end is given back.
    ir.module.reset();
  }
  return load_object(std::move(object));
}

std::string assembly(IrModule ir, const target::Target& target) {
  verify(*ir.module);
  Backend backend(target, llvm::CodeGenFileType::AssemblyFile);
  const std::vector<char> text = backend.run(*ir.module);
  ir.module.reset();
  return {text.begin(), text.end()};
}

}  // namespace npugraph::codegen
