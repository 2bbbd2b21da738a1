// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/kept_results.h"

#include <span>

#include "runtime/watch/ledger.h"

namespace npugraph::runtime {

KeptResults::~KeptResults() {
  for (const auto& [buffer, object] : objects_) host_.release(object);
}

void* KeptResults::take(int32_t buffer, int64_t bytes, void** data) {
  const auto found = objects_.find(buffer);
  if (found != objects_.end()) {
    const std::span<std::byte> memory = host_.memory_of(found->second);
    if (memory.data() != nullptr && static_cast<int64_t>(memory.size()) >= bytes) {
      poison_memory(memory.data(), memory.size());
      host_.retain(found->second);
      *data = memory.data();
      return found->second;
    }
    host_.release(found->second);
    objects_.erase(found);
  }
  void* object = host_.allocate(bytes, data);
  poison_memory(*data, bytes);
  host_.retain(object);
  objects_.emplace(buffer, object);
  return object;
}

}  // namespace npugraph::runtime
