// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/code_store.h"

#include <map>
#include <mutex>

#include "base/error.h"
#include "codegen/jit/make_code.h"

namespace npugraph::codegen {
namespace {

struct Piece {
  std::once_flag made;
  std::shared_ptr<const MachineCode> code;
};

struct Store {
  std::mutex mutex;  // guards the map, not its pieces
  std::map<std::string, Piece> pieces;
};

Store& store() {
  static Store* instance = new Store;
  return *instance;
}

Piece& find_piece(const std::string& key) {
  const std::lock_guard lock(store().mutex);
  return store().pieces[key];
}

}  // namespace

const MachineCode& stored_code(const target::Target& target, std::string_view name,
                               const std::function<void(llvm::Module&)>& fill) {
  Piece& piece = find_piece(cat(target.cpu, " ", target.features, " ", name));
  std::call_once(piece.made, [&] {
    piece.code = make_code(target, cat("piece ", name), [&] {
      IrModule ir = make_ir_module(name, target);
      fill(*ir.module);
      return ir;
    });
  });
  return *piece.code;
}

}  // namespace npugraph::codegen
