// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/block_heap.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace npugraph::runtime {

void BlockHeap::add_free(std::byte* at, Range range) {
  free_.emplace(at, range);
  by_size_.emplace(range.bytes, at);
}

BlockHeap::Ranges::iterator BlockHeap::remove_free(Ranges::iterator range) {
  by_size_.erase({range->second.bytes, range->first});
  return free_.erase(range);
}

std::byte* BlockHeap::take(int64_t bytes) {
  const int64_t size = rounded(bytes);
  const auto best = by_size_.lower_bound({size, nullptr});
  if (best == by_size_.end()) return nullptr;
  const auto at = free_.find(best->second);
  std::byte* const first = at->first;
  const Range range = at->second;
  remove_free(at);
  std::byte* const block = range.from_end ? first + (range.bytes - size) : first;
  if (range.bytes > size)
    add_free(range.from_end ? first : first + size, {range.bytes - size, range.slab, range.from_end});
  slabs_.at(range.slab).last_taken = ++blocks_taken_;
  spare_bytes_ -= size;
  used_bytes_ += size;
  most_used_ = std::max(most_used_, used_bytes_);
  return block;
}

void BlockHeap::give_back(std::byte* block, int64_t bytes) {
  Range range{.bytes = rounded(bytes)};
  spare_bytes_ += range.bytes;
  used_bytes_ -= range.bytes;
  range.slab = std::prev(slabs_.upper_bound(block))->first;
  std::byte* first = block;
  auto next = free_.lower_bound(block);
  if (next != free_.end() && next->first == block + range.bytes && next->second.slab == range.slab) {
    range.bytes += next->second.bytes;
    range.from_end = true;
    next = remove_free(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.bytes == block && before->second.slab == range.slab) {
      first = before->first;
      range.from_end = range.from_end && range.bytes > before->second.bytes;
      range.bytes += before->second.bytes;
      remove_free(before);
    }
  }
  add_free(first, range);
}

int64_t BlockHeap::wanted_slab(int64_t bytes) const {
  if (slabs_.empty()) return std::max(rounded(bytes), consolidated_bytes_);
  return std::max(rounded(bytes), std::min(rounded(used_bytes_), kMostOfSlab));
}

void BlockHeap::add(Slab slab) {
  const auto bytes = static_cast<int64_t>(slab.size());
  NG_CHECK(bytes > 0 && bytes % kGranule == 0, "a slab of ", bytes, " bytes");
  slabs_.emplace(slab.data(), State{.bytes = bytes, .last_taken = blocks_taken_});
  add_free(slab.data(), {bytes, slab.data()});
  spare_bytes_ += bytes;
}

std::vector<BlockHeap::Slab> BlockHeap::shed(int64_t limit) {
  std::vector<Slab> removed;
  while (spare_bytes_ > limit) {
    auto oldest = slabs_.end();
    for (auto slab = slabs_.begin(); slab != slabs_.end(); ++slab) {
      const auto range = free_.find(slab->first);
      const bool is_idle = range != free_.end() && range->second.bytes == slab->second.bytes;
      if (is_idle && (oldest == slabs_.end() || slab->second.last_taken < oldest->second.last_taken)) oldest = slab;
    }
    if (oldest == slabs_.end()) break;
    const auto range = free_.find(oldest->first);
    spare_bytes_ -= range->second.bytes;
    remove_free(range);
    removed.emplace_back(oldest->first, static_cast<size_t>(oldest->second.bytes));
    slabs_.erase(oldest);
  }
  if (slabs_.empty()) most_used_ = consolidated_bytes_ = 0;
  return removed;
}

std::vector<BlockHeap::Slab> BlockHeap::consolidate() {
  const bool is_loose = slabs_.size() > 1 && spare_bytes_ > most_used_ + most_used_ / 8;
  if (used_bytes_ > 0 || !is_loose || most_used_ == consolidated_bytes_) return {};
  const int64_t bytes = most_used_;
  std::vector<Slab> removed = shed(0);
  most_used_ = consolidated_bytes_ = bytes;
  return removed;
}

}  // namespace npugraph::runtime
