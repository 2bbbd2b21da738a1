// SPDX-License-Identifier: Apache-2.0
#include "codegen/code_store.h"

#include <map>
#include <mutex>

#include "base/error.h"

namespace npugraph::codegen {
namespace {

struct Store {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const MachineCode>> modules;
};

Store& store() {
  static Store* instance = new Store;
  return *instance;
}

}  // namespace

const MachineCode& stored_code(const target::Target& target, std::string_view name,
                               const std::function<void(llvm::Module&)>& fill) {
  const auto key = cat(target.cpu, " ", target.features, " ", name);
  std::lock_guard lock(store().mutex);
  auto& code = store().modules[key];
  if (code == nullptr) {
    IrModule ir = make_ir_module(name, target);
    fill(*ir.module);
    code = compile(std::move(ir), target);
  }
  return *code;
}

}  // namespace npugraph::codegen
