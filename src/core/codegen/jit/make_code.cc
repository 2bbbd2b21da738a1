// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/make_code.h"

#include <algorithm>
#include <functional>
#include <list>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/log.h"
#include "base/trace.h"
#include "codegen/jit/builds.h"

namespace npugraph::codegen {

namespace {

std::shared_ptr<const MachineCode> load_stored(const target::Target& target, std::string_view text,
                                               const ObjectCache& objects) {
  std::optional<std::vector<char>> object = objects.find(target, text);
  if (!object) return nullptr;
  try {
    return load_object(std::move(*object));
  } catch (const InternalError& error) {
    log_debug("stored code is made again: ", error.what());
    return nullptr;
  }
}

}  // namespace

std::shared_ptr<const MachineCode> make_code(const target::Target& target, std::string_view text,
                                             const std::function<IrModule()>& emit, const ObjectCache& objects) {
  const BuildRules& rules = build_rules();
  const bool on_disk = rules.reads_disk && objects.is_on();
  auto loaded = on_disk ? load_stored(target, text, objects) : nullptr;
  Descriptor turn;
  if (!loaded && on_disk && rules.one_builder) {
    turn = objects.take_turn(target, text);
    loaded = load_stored(target, text, objects);
  }
  if (loaded) {
    count_load();
    return loaded;
  }
  const int64_t start = now_ns();
  auto made = compile(emit(), target);
  count_build(now_ns() - start);
  if (on_disk) objects.store(target, text, {made->object().begin(), made->object().end()});
  return made;
}

namespace {

struct Piece {
  std::once_flag made;
  std::shared_ptr<const MachineCode> code;
};

struct PiecesOfTarget {
  std::string cpu, features;
  std::map<std::string, Piece, std::less<>> pieces;
};

struct Store {
  std::mutex mutex;  // guards the list and its maps, not the pieces
  std::list<PiecesOfTarget> targets;
};

Store& store() {
  static Store* instance = new Store;
  return *instance;
}

// Calls of operators look up several pieces each, so a piece that exists is found without a new string.
Piece& find_piece(const target::Target& target, std::string_view name) {
  const std::lock_guard lock(store().mutex);
  auto& targets = store().targets;
  auto of_target = std::ranges::find_if(targets, [&](const PiecesOfTarget& known) {
    return known.cpu == target.cpu && known.features == target.features;
  });
  if (of_target == targets.end())
    of_target = targets.insert(targets.end(), {.cpu = target.cpu, .features = target.features, .pieces = {}});
  auto& pieces = of_target->pieces;
  const auto found = pieces.find(name);
  return found != pieces.end() ? found->second : pieces[std::string(name)];
}

}  // namespace

const MachineCode& stored_code(const target::Target& target, std::string_view name,
                               const std::function<void(llvm::Module&)>& fill) {
  Piece& piece = find_piece(target, name);
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
