// SPDX-License-Identifier: Apache-2.0
// LLVM's back ends, kept between compilations: making one costs more than compiling a small kernel.
#pragma once

#include <memory>

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include "codegen/jit/jit.h"

namespace npugraph::codegen {

// A target machine, and the passes that turn modules into files of one kind.
class Backend {
 public:
  Backend(const target::Target& target, llvm::CodeGenFileType type);
  llvm::TargetMachine& machine() { return *machine_; }
  // Compiles a module and returns the contents of its file.
  std::vector<char> run(llvm::Module& module);

 private:
  std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::SmallVector<char, 0> bytes_;
  llvm::raw_svector_ostream stream_;
  llvm::legacy::PassManager passes_;
};

// A back end for object files, for one thread at a time. It is taken from a pool of the process and given back by the
// destructor.
class BackendLease {
 public:
  BackendLease(const target::Target& target);
  ~BackendLease();
  BackendLease(const BackendLease&) = delete;
  BackendLease& operator=(const BackendLease&) = delete;
  Backend* operator->() const { return backend_.get(); }

 private:
  std::string key_;
  std::unique_ptr<Backend> backend_;
};

}  // namespace npugraph::codegen
