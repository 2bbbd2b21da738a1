// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/code_cache.h"

#include <vector>

namespace npugraph::codegen {
namespace {

struct Caches {
  std::mutex mutex;
  std::vector<std::function<void()>> drop_unused;
};

Caches& caches() {
  static auto* instance = new Caches;
  return *instance;
}

}  // namespace

void detail::add_cache(std::function<void()> drop_unused) {
  const std::lock_guard lock(caches().mutex);
  caches().drop_unused.push_back(std::move(drop_unused));
}

void drop_unused_code() {
  const std::lock_guard lock(caches().mutex);
  for (const auto& drop : caches().drop_unused) drop();
}

}  // namespace npugraph::codegen
