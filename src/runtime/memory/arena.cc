// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/arena.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <stdexcept>

#include "base/error.h"
#include "base/host_memory.h"
#include "base/pages.h"
#include "program/offsets.h"

namespace npugraph::runtime {
namespace {

int64_t round_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

uint64_t new_generation() {
  static std::atomic<uint64_t> latest = 0;
  return latest.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Blocks that are at least as large as a huge page are aligned to one.
int64_t alignment_of(int64_t bytes) { return bytes >= kHugePage ? kHugePage : program::kArenaAlignment; }

}  // namespace

Arena::Arena(std::string name, std::string owner)
    : generation_(new_generation()), record_(std::make_unique<PoolRecord>(std::move(name), std::move(owner))) {}

Arena::~Arena() { free(); }

void Arena::free() {
  std::free(data_);
  data_ = nullptr;
  capacity_ = 0;
}

void Arena::release() {
  if (data_ == nullptr) return;
  free();
  generation_ = new_generation();
  record_->report("drop", 0);
}

void Arena::reserve(int64_t bytes) {
  NG_CHECK(bytes >= 0, "an arena of ", bytes, " bytes");
  if (bytes <= capacity_) return;
  const int64_t wanted = std::max(bytes, capacity_ + capacity_ / 2);
  const int64_t alignment = alignment_of(wanted);
  const int64_t capacity = round_up(wanted, alignment);
  // The old block goes first: its content is dead, and both at once would double the peak.
  free();
  generation_ = new_generation();
  if (may_take(capacity)) data_ = static_cast<std::byte*>(std::aligned_alloc(alignment, capacity));
  if (data_ == nullptr) throw std::runtime_error(cat(kNoMemory, capacity, " bytes, for what lives between tasks"));
  capacity_ = capacity;
  prefer_huge_pages(data_, capacity);
  populate_pages(data_, capacity);
  record_->report("grow", capacity_);
}

}  // namespace npugraph::runtime
