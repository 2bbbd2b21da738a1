// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/make_code.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "codegen/jit/build_count.h"
#include "codegen/jit/build_rules.h"

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

}  // namespace npugraph::codegen
