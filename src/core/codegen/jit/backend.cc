// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/backend.h"

#include <map>
#include <mutex>

#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>

#include "base/error.h"

namespace npugraph::codegen {
namespace {

// Disables passes that find nothing to improve: emitters already write loops, addresses and constants for the machine.
constexpr const char* kOptions[] = {"npugraph",
                                    "-disable-lsr",
                                    "-disable-constant-hoisting",
                                    "-disable-partial-libcall-inlining",
                                    "-disable-mergeicmps",
                                    "-disable-early-ifcvt",
                                    "-disable-tail-duplicate",
                                    "-disable-early-taildup"};

struct Pool {
  std::mutex mutex;
  std::multimap<std::string, std::unique_ptr<Backend>> idle;
};

// Never destroyed: threads may compile while the process ends.
Pool& pool() {
  static auto* instance = new Pool;
  return *instance;
}

void initialize_llvm() {
  [[maybe_unused]] static const bool done = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return llvm::cl::ParseCommandLineOptions(std::size(kOptions), kOptions);
  }();
}

std::unique_ptr<llvm::TargetMachine> make_machine(const target::Target& target) {
  initialize_llvm();
  const std::string triple = llvm::sys::getProcessTriple();
  std::string error;
  const llvm::Target* registered = llvm::TargetRegistry::lookupTarget(triple, error);
  NG_CHECK(registered != nullptr, error);
  // The higher levels were measured to cost the same and to give the same speed.
  constexpr auto kLevel = llvm::CodeGenOptLevel::Less;
  std::unique_ptr<llvm::TargetMachine> machine(registered->createTargetMachine(
      triple, target.cpu, target.features, {}, llvm::Reloc::PIC_, llvm::CodeModel::Small, kLevel, /*JIT=*/true));
  NG_CHECK(machine != nullptr, "LLVM knows no machine for ", triple, " ", target.cpu);
  return machine;
}

}  // namespace

Backend::Backend(const target::Target& target, llvm::CodeGenFileType type)
    : machine_(make_machine(target)), stream_(bytes_) {
  const bool refused = machine_->addPassesToEmitFile(passes_, stream_, nullptr, type, /*DisableVerify=*/true);
  NG_CHECK(!refused, "LLVM cannot write this kind of file");
}

std::vector<char> Backend::run(llvm::Module& module) {
  bytes_.clear();
  passes_.run(module);
  return {bytes_.begin(), bytes_.end()};
}

BackendLease::BackendLease(const target::Target& target) : key_(cat(target.cpu, " ", target.features)) {
  Pool& backends = pool();
  {
    const std::lock_guard lock(backends.mutex);
    if (const auto found = backends.idle.find(key_); found != backends.idle.end()) {
      backend_ = std::move(found->second);
      backends.idle.erase(found);
      return;
    }
  }
  backend_ = std::make_unique<Backend>(target, llvm::CodeGenFileType::ObjectFile);
}

BackendLease::~BackendLease() {
  const std::lock_guard lock(pool().mutex);
  pool().idle.emplace(std::move(key_), std::move(backend_));
}

}  // namespace npugraph::codegen
