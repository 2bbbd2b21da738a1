// SPDX-License-Identifier: Apache-2.0
// Loads object files: memory from mmap, relocations by JITLink.
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/Support/Memory.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/Process.h>

#include "base/error.h"
#include "codegen/jit/jit.h"
#include "codegen/jit/library.h"
#include "codegen/jit/perf_map.h"

namespace npugraph::codegen {
namespace {

using llvm::jitlink::InProcessMemoryManager;
using llvm::jitlink::JITLinkContext;
using llvm::jitlink::JITLinkMemoryManager;
using llvm::jitlink::LinkGraph;

// Never destroyed: code may live until the process ends.
InProcessMemoryManager& memory() {
  static auto* instance = new InProcessMemoryManager(llvm::sys::Process::getPageSizeEstimate());
  return *instance;
}

struct Loaded {
  std::map<std::string, void*, std::less<>> symbols;
  std::optional<JITLinkMemoryManager::FinalizedAlloc> memory;
  std::string error;
};

// One link. JITLink calls back in the calling thread, since the memory is in this process.
class Context : public JITLinkContext {
 public:
  explicit Context(Loaded& out) : JITLinkContext(nullptr), out_(out) {}

  JITLinkMemoryManager& getMemoryManager() override { return memory(); }
  void notifyFailed(llvm::Error error) override { out_.error = llvm::toString(std::move(error)); }

  void lookup(const LookupMap& names, std::unique_ptr<llvm::jitlink::JITLinkAsyncLookupContinuation> next) override {
    llvm::jitlink::AsyncLookupResult found;
    for (const auto& [name, flags] : names) {
      void* address = library_function({name.data(), name.size()});
      if (address == nullptr) {
        next->run(llvm::make_error<llvm::StringError>("generated code wants the unknown function " + name,
                                                      llvm::inconvertibleErrorCode()));
        return;
      }
      found[name] = {llvm::orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
    }
    next->run(std::move(found));
  }

  llvm::Error notifyResolved(LinkGraph& graph) override {
    for (const llvm::jitlink::Symbol* symbol : graph.defined_symbols()) {
      if (!symbol->hasName()) continue;
      const llvm::StringRef name = symbol->getName();
      void* address = symbol->getAddress().toPtr<void*>();
      if (symbol->isCallable()) note_function({name.data(), name.size()}, address, symbol->getSize());
      if (symbol->getScope() == llvm::jitlink::Scope::Default) out_.symbols.emplace(name.str(), address);
    }
    return llvm::Error::success();
  }

  void notifyFinalized(JITLinkMemoryManager::FinalizedAlloc memory) override { out_.memory = std::move(memory); }

 private:
  Loaded& out_;
};

class LoadedCode : public MachineCode {
 public:
  LoadedCode(std::vector<char> object, Loaded loaded) : MachineCode(std::move(object)), loaded_(std::move(loaded)) {}
  ~LoadedCode() override { llvm::consumeError(memory().deallocate(*std::move(loaded_.memory))); }

  void* address(std::string_view name) const override {
    const auto found = loaded_.symbols.find(name);
    NG_CHECK(found != loaded_.symbols.end(), "generated code has no function ", name);
    return found->second;
  }

 private:
  Loaded loaded_;
};

}  // namespace

std::shared_ptr<const MachineCode> load_object(std::vector<char> object) {
  Loaded loaded;
  const llvm::MemoryBufferRef buffer(llvm::StringRef(object.data(), object.size()), "generated");
  auto graph = llvm::jitlink::createLinkGraphFromObject(buffer);
  if (!graph) throw InternalError(cat("generated code cannot be loaded: ", llvm::toString(graph.takeError())));
  llvm::jitlink::link(std::move(*graph), std::make_unique<Context>(loaded));
  if (!loaded.memory) throw InternalError(cat("generated code cannot be loaded: ", loaded.error));
  return std::make_shared<LoadedCode>(std::move(object), std::move(loaded));
}

bool may_load_code() {
  using llvm::sys::Memory;
  std::error_code error;
  const llvm::sys::OwningMemoryBlock page(
      Memory::allocateMappedMemory(1, nullptr, Memory::MF_READ | Memory::MF_WRITE, error));
  return !error && !Memory::protectMappedMemory(page.getMemoryBlock(), Memory::MF_READ | Memory::MF_EXEC);
}

}  // namespace npugraph::codegen
