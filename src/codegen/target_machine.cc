// SPDX-License-Identifier: Apache-2.0
#include "codegen/target_machine.h"

#include <map>
#include <mutex>

#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>

#include "base/error.h"

namespace npugraph::codegen {
namespace {

struct Pool {
  std::mutex mutex;
  std::multimap<std::string, std::unique_ptr<llvm::TargetMachine>> idle;
};

// Never destroyed: threads may compile while the process ends.
Pool& pool() {
  static Pool* instance = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return new Pool;
  }();
  return *instance;
}

std::unique_ptr<llvm::TargetMachine> make_machine(const target::Target& target, Effort effort) {
  const std::string triple = llvm::sys::getProcessTriple();
  std::string error;
  const llvm::Target* registered = llvm::TargetRegistry::lookupTarget(triple, error);
  NG_CHECK(registered != nullptr, error);
  const auto level = effort == Effort::kFast ? llvm::CodeGenOptLevel::Less : llvm::CodeGenOptLevel::Default;
  llvm::TargetOptions options;
  options.UseInitArray = true;
  std::unique_ptr<llvm::TargetMachine> machine(registered->createTargetMachine(
      triple, target.cpu, target.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small, level, /*JIT=*/true));
  NG_CHECK(machine != nullptr, "LLVM knows no machine for ", triple, " ", target.cpu);
  return machine;
}

}  // namespace

TargetMachineLease::TargetMachineLease(const target::Target& target, Effort effort)
    : key_(cat(target.cpu, " ", target.features, " ", static_cast<int>(effort))) {
  Pool& machines = pool();
  {
    std::lock_guard lock(machines.mutex);
    if (auto found = machines.idle.find(key_); found != machines.idle.end()) {
      machine_ = std::move(found->second);
      machines.idle.erase(found);
      return;
    }
  }
  machine_ = make_machine(target, effort);
}

TargetMachineLease::~TargetMachineLease() {
  std::lock_guard lock(pool().mutex);
  pool().idle.emplace(std::move(key_), std::move(machine_));
}

}  // namespace npugraph::codegen
