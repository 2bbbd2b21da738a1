// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/make_code.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "codegen/jit/build_count.h"

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
  if (auto loaded = load_stored(target, text, objects)) {
    count_load();
    return loaded;
  }
  const int64_t start = now_ns();
  auto made = compile(emit(), target);
  count_build(now_ns() - start);
  objects.store(target, text, {made->object().begin(), made->object().end()});
  return made;
}

}  // namespace npugraph::codegen
