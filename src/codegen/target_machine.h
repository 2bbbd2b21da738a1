// SPDX-License-Identifier: Apache-2.0
// LLVM's description of a target, kept between compilations: making one costs more than compiling a small kernel.
#pragma once

#include <memory>

#include <llvm/Target/TargetMachine.h>

#include "codegen/jit.h"

namespace npugraph::codegen {

// A TargetMachine for one thread at a time: taken from a pool of the process, given back at the end.
class TargetMachineLease {
 public:
  TargetMachineLease(const target::Target& target, Effort effort);
  ~TargetMachineLease();
  TargetMachineLease(const TargetMachineLease&) = delete;
  TargetMachineLease& operator=(const TargetMachineLease&) = delete;
  llvm::TargetMachine* operator->() const { return machine_.get(); }
  llvm::TargetMachine& operator*() const { return *machine_; }

 private:
  std::string key_;
  std::unique_ptr<llvm::TargetMachine> machine_;
};

}  // namespace npugraph::codegen
