// SPDX-License-Identifier: Apache-2.0
// The ranges of one parallel region, for threads that take them one by one. Internal to runtime/.
//
// Neighbouring ranges form a share for each thread, which takes those first and then what is left of other shares. So a
// thread mostly goes on where it stopped, and in successive regions it finds its part of the data in its own cache. A
// cache line has the shares of eight threads, so few threads look at one line, and many threads do not compete for it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "runtime/threads/fp_control.h"

namespace npugraph::runtime {

using RangeBody = void (*)(void* arg, int64_t begin, int64_t end);

inline constexpr int32_t kRangesPerThread = 4;  // so that a thread that comes late costs a quarter of its share
inline constexpr size_t kCacheLine = 64;
inline constexpr uint32_t kMostShares = 64;  // more threads share them

inline void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#else
  asm volatile("yield");
#endif
}

// Polls until `done()` is true, at first without yielding the processor.
template <typename Done>
void spin_until(Done done) {
  for (int64_t spins = 0; !done(); ++spins) {
    if (spins < 1000) {
      pause_cpu();
    } else {
      std::this_thread::yield();  // a thread has lost its processor in the middle of its work
    }
  }
}

struct Region {
  RangeBody body;
  void* arg;
  int64_t begin;
  int64_t end;
  int64_t length;  // of each range but the last
  uint64_t fp_control;
  uint64_t number;
};

class RangeQueue {
 public:
  // To be called when all ranges of the previous region are done.
  void publish(const Region& next, uint32_t ranges, int32_t threads) {
    region_ = next;
    done_.store(0, std::memory_order_relaxed);
    const uint64_t shares = std::min({static_cast<uint32_t>(threads), ranges, kMostShares});
    if (shares > used_.load(std::memory_order_relaxed)) used_.store(shares, std::memory_order_seq_cst);
    for (uint64_t s = 0; s < shares; ++s) {
      const uint64_t first = s * ranges / shares, end = (s + 1) * ranges / shares;
      shares_[s].store(end << 32 | first, std::memory_order_seq_cst);
    }
  }

  bool has_ranges() const {
    const auto end = shares_.begin() + static_cast<std::ptrdiff_t>(used_.load(std::memory_order_seq_cst));
    return std::any_of(shares_.begin(), end,
                       [](const auto& share) { return Ticket::of(share.load(std::memory_order_seq_cst)).valid(); });
  }

  // Runs ranges until none is left, those of the share of thread `place` first; the caller of the region is thread 0.
  // Calls note(number of the region) before each. Counts its ranges at the end, because all threads count in one line.
  template <typename Note>
  void take_ranges(int32_t place, Note note) {
    uint32_t taken = 0;
    const auto used = static_cast<uint32_t>(used_.load(std::memory_order_seq_cst));
    for (uint32_t i = 0; i < used; ++i)
      taken += take_share(shares_[(static_cast<uint32_t>(place) + i) % used], place == 0, note);
    if (taken > 0) done_.fetch_add(taken, std::memory_order_release);
  }

  void await_all(uint32_t ranges) const {
    spin_until([&] { return done_.load(std::memory_order_acquire) == ranges; });
  }

 private:
  // The ranges of a share that are left, in one word: its end, and the next range that is not taken. A range is taken
  // by adding 1, so that a ticket shows whether it is valid before the region is read.
  struct Ticket {
    uint32_t end;
    uint32_t next;
    static Ticket of(uint64_t word) { return {static_cast<uint32_t>(word >> 32), static_cast<uint32_t>(word)}; }
    bool valid() const { return next < end; }
  };

  // Returns the number of ranges that it ran.
  template <typename Note>
  uint32_t take_share(std::atomic<uint64_t>& share, bool is_caller, Note note) {
    for (uint32_t taken = 0;; ++taken) {
      if (!Ticket::of(share.load(std::memory_order_relaxed)).valid()) return taken;
      const Ticket mine = Ticket::of(share.fetch_add(1, std::memory_order_acquire));
      if (!mine.valid()) return taken;
      note(region_.number);
      if (!is_caller && fp_control() != region_.fp_control) set_fp_control(region_.fp_control);
      const int64_t first = region_.begin + mine.next * region_.length;
      region_.body(region_.arg, first, std::min(first + region_.length, region_.end));
    }
  }

  // Written only while no ticket is valid and no range is open, and read only by threads that hold a valid ticket.
  Region region_{};
  alignas(kCacheLine) std::array<std::atomic<uint64_t>, kMostShares> shares_{};
  alignas(kCacheLine) std::atomic<uint64_t> used_{0};  // shares that regions have had so far; rises only
  alignas(kCacheLine) std::atomic<uint32_t> done_{0};
};

}  // namespace npugraph::runtime
