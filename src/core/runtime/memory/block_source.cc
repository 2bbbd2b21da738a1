// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/block_source.h"

#include <cstdlib>

#include "base/host_memory.h"
#include "program/offsets.h"

namespace npugraph::runtime {
namespace {

int64_t round_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

class ProcessMemory final : public BlockSource {
 public:
  std::span<std::byte> take(int64_t /*least*/, int64_t wanted) override {
    // Blocks that are at least as large as a huge page are aligned to one.
    const int64_t alignment = wanted >= kHugePage ? kHugePage : program::kArenaAlignment;
    const int64_t bytes = round_up(wanted, alignment);
    void* data = may_take(bytes) ? std::aligned_alloc(alignment, bytes) : nullptr;
    if (data == nullptr) return {};
    prefer_huge_pages(data, bytes);
    populate_pages(data, bytes);
    return {static_cast<std::byte*>(data), static_cast<size_t>(bytes)};
  }
  void give_back(std::span<std::byte> block) override { std::free(block.data()); }
  bool is_counted() const override { return true; }
};

}  // namespace

BlockSource& process_memory() {
  static ProcessMemory memory;
  return memory;
}

}  // namespace npugraph::runtime
