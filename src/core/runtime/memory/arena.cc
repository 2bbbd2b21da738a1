// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/arena.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/host_memory.h"

namespace npugraph::runtime {
namespace {

uint64_t new_generation() {
  static std::atomic<uint64_t> latest = 0;
  return latest.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

Arena::Arena(std::string name, std::string owner, BlockSource& source)
    : source_(source),
      generation_(new_generation()),
      record_(std::make_unique<PoolRecord>(std::move(name), std::move(owner))) {}

Arena::~Arena() { give_back(); }

void Arena::give_back() {
  if (block_.data() != nullptr) source_.give_back(block_);
  block_ = {};
}

void Arena::release() {
  if (data() == nullptr) return;
  give_back();
  generation_ = new_generation();
  record_->report("drop", 0);
}

void Arena::reserve(int64_t bytes) {
  NG_CHECK(bytes >= 0, "an arena of ", bytes, " bytes");
  if (bytes <= capacity()) return;
  const int64_t wanted = std::max(bytes, capacity() + capacity() / 2);
  // The old block goes first: its content is dead, and both at once would double the peak.
  give_back();
  generation_ = new_generation();
  block_ = source_.take(bytes, wanted);
  if (data() == nullptr) throw std::runtime_error(cat(kNoMemory, wanted, " bytes, for what lives between tasks"));
  NG_CHECK(capacity() >= bytes, "a block of ", capacity(), " bytes for ", bytes);
  if (source_.is_counted()) record_->report("grow", capacity());
}

}  // namespace npugraph::runtime
