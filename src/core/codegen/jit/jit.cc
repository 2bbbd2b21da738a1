// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/jit.h"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>

#include "base/error.h"
#include "codegen/jit/module.h"

namespace npugraph::codegen {
namespace {

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

// LLVM's back ends are kept between compilations: making one costs more than compiling a small kernel.
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

}  // namespace

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
