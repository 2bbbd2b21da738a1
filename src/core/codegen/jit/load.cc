// SPDX-License-Identifier: Apache-2.0
// Loads object files: memory from mmap, relocations by JITLink, addresses of functions of the C library from a table.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>

#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/Support/Memory.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/Process.h>
#include <unistd.h>

#include "base/env.h"
#include "base/error.h"
#include "codegen/jit/jit.h"

namespace npugraph::codegen {
namespace {

using Table = std::unordered_map<std::string_view, void*>;

template <typename Float>
using Unary = Float (*)(Float);
template <typename Float>
using Binary = Float (*)(Float, Float);

// The C names; the casts choose the overload.
#define NG_UNARY(name)                                                          \
  {#name "f", reinterpret_cast<void*>(static_cast<Unary<float>>(std::name))}, { \
    #name, reinterpret_cast<void*>(static_cast<Unary<double>>(std::name))       \
  }
#define NG_BINARY(name)                                                          \
  {#name "f", reinterpret_cast<void*>(static_cast<Binary<float>>(std::name))}, { \
    #name, reinterpret_cast<void*>(static_cast<Binary<double>>(std::name))       \
  }

// glibc's erfc is the only one of its functions of double that is off by more than 2 ulp.
double precise_erfc(double x) { return static_cast<double>(std::erfc(static_cast<long double>(x))); }

const Table& table() {
  static const Table all = {
      NG_UNARY(exp),
      NG_UNARY(exp2),
      NG_UNARY(expm1),
      NG_UNARY(log),
      NG_UNARY(log2),
      NG_UNARY(log10),
      NG_UNARY(log1p),
      NG_UNARY(sin),
      NG_UNARY(cos),
      NG_UNARY(tan),
      NG_UNARY(asin),
      NG_UNARY(acos),
      NG_UNARY(atan),
      NG_UNARY(sinh),
      NG_UNARY(cosh),
      NG_UNARY(tanh),
      NG_UNARY(asinh),
      NG_UNARY(acosh),
      NG_UNARY(atanh),
      NG_UNARY(erf),
      NG_UNARY(erfc),
      NG_UNARY(cbrt),
      NG_UNARY(floor),
      NG_UNARY(ceil),
      NG_UNARY(trunc),
      NG_UNARY(rint),
      NG_UNARY(nearbyint),
      NG_UNARY(round),
      NG_UNARY(lgamma),
      NG_UNARY(tgamma),
      NG_BINARY(pow),
      NG_BINARY(atan2),
      NG_BINARY(fmod),
      NG_BINARY(hypot),
      NG_BINARY(remainder),
      {"npugraph_erfc", reinterpret_cast<void*>(precise_erfc)},
      {"memcpy", reinterpret_cast<void*>(std::memcpy)},
      {"memmove", reinterpret_cast<void*>(std::memmove)},
      {"memset", reinterpret_cast<void*>(std::memset)},
  };
  return all;
}

#undef NG_UNARY
#undef NG_BINARY

// The address of a function outside of generated code that it may call, of the C library, by its name ("sinf",
// "memcpy"), null if generated code may not call it. "npugraph_erfc" is erfc of double within 1 ulp.
void* library_function(std::string_view name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : found->second;
}

// Adds the function of `bytes` bytes at `address` to /tmp/perf-PID.map, from which Linux's perf takes names of
// generated functions (tools/perf/Documentation/jit-interface.txt in the sources of Linux), if NPUGRAPH_PERF_MAP asks
// for that. The file is only a help for people, so that it cannot be written is no error. Thread-safe.
void note_function(std::string_view name, const void* address, size_t bytes) {
  if (!environment().perf_map) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  // Opened for each function: a forked process writes to the file of its own number.
  std::ofstream file(cat("/tmp/perf-", getpid(), ".map"), std::ios::app);
  file << std::hex << reinterpret_cast<uintptr_t>(address) << ' ' << bytes << ' ' << name << '\n';
}

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
