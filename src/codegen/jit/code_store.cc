// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/code_store.h"

#include <map>
#include <mutex>

#include "base/clock.h"
#include "base/error.h"
#include "codegen/jit/build_count.h"

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
    const int64_t start = now_ns();
    IrModule ir = make_ir_module(name, target);
    fill(*ir.module);
    piece.code = compile(std::move(ir), target);
    count_build(now_ns() - start);
  });
  return *piece.code;
}

}  // namespace npugraph::codegen
