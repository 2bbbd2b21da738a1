// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/module.h"

#include <vector>

#include "codegen/jit/backend.h"

namespace npugraph::codegen {

IrModule make_ir_module(std::string_view name, const target::Target& target) {
  IrModule out;
  out.context = std::make_unique<llvm::LLVMContext>();
  // Names of values cost time and do not appear in machine code.
  out.context->setDiscardValueNames(true);
  out.module = std::make_unique<llvm::Module>(llvm::StringRef(name.data(), name.size()), *out.context);
  const BackendLease backend(target);
  out.module->setTargetTriple(backend->machine().getTargetTriple().str());
  out.module->setDataLayout(backend->machine().createDataLayout());
  return out;
}

llvm::Function* add_function(llvm::Module& module, const target::Target& target, std::string_view name,
                             llvm::FunctionType* type, bool external) {
  const auto linkage = external ? llvm::Function::ExternalLinkage : llvm::Function::InternalLinkage;
  auto* function = llvm::Function::Create(type, linkage, llvm::StringRef(name.data(), name.size()), module);
  function->addFnAttr("target-cpu", target.cpu);
  function->addFnAttr("target-features", target.features);
  // Vectors of LLVM's fixed length may then be as wide as those of SVE.
  if (target.scalable)
    function->addFnAttr(llvm::Attribute::getWithVScaleRangeArgs(module.getContext(), target.vector_bits / 128, 16));
  function->setDoesNotThrow();
  return function;
}

llvm::FunctionType* function_type(llvm::LLVMContext& context, std::string_view arguments) {
  std::vector<llvm::Type*> types;
  for (const char argument : arguments)
    types.push_back(argument == 'p' ? static_cast<llvm::Type*>(llvm::PointerType::getUnqual(context))
                                    : llvm::Type::getInt64Ty(context));
  return llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false);
}

}  // namespace npugraph::codegen
