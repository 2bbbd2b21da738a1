// SPDX-License-Identifier: Apache-2.0
#include "program/offsets.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"

namespace npugraph::program {

// Which buffers are alive at the same time.

// Built from lifetimes alone; immutable. Time is counted in ranks of distinct starts: that keeps every overlap, and
// bounds the axis by the number of buffers.
class Conflicts {
 public:
  explicit Conflicts(std::span<const Lifetime> lifetimes);

  int32_t size() const { return static_cast<int32_t>(first_.size()); }
  int32_t num_ranks() const { return num_ranks_; }
  int32_t first(int32_t buffer) const { return first_[buffer]; }
  int32_t last(int32_t buffer) const { return last_[buffer]; }
  int64_t num_pairs() const { return num_pairs_; }

  // Calls visit(other) for every other buffer whose life overlaps that of `buffer`.
  template <typename Visit>
  void for_each(int32_t buffer, Visit visit) const {
    if (!row_.empty()) {
      for (int64_t i = row_[buffer]; i < row_[buffer + 1]; ++i) visit(others_[i]);
      return;
    }
    for (int32_t other = 0; other < size(); ++other) {
      if (other != buffer && first_[other] <= last_[buffer] && first_[buffer] <= last_[other]) visit(other);
    }
  }

 private:
  void count_pairs(std::span<const int32_t> by_start);
  void list_pairs(std::span<const int32_t> by_start);

  std::vector<int32_t> first_;
  std::vector<int32_t> last_;
  int32_t num_ranks_ = 0;
  int64_t num_pairs_ = 0;
  // Row i of `others_` is [row_[i], row_[i + 1]). Both are empty when the pairs are too many to keep.
  std::vector<int64_t> row_;
  std::vector<int32_t> others_;
};

namespace {

constexpr int64_t kMostPairsKept = 4'000'000;  // 32 MB

}  // namespace

Conflicts::Conflicts(std::span<const Lifetime> lifetimes) {
  std::vector<int32_t> starts;
  starts.reserve(lifetimes.size());
  for (const Lifetime& life : lifetimes) {
    NG_CHECK(life.first >= 0 && life.first <= life.last, "a life of (", life.first, ", ", life.last, ")");
    starts.push_back(life.first);
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  num_ranks_ = static_cast<int32_t>(starts.size());

  const auto rank_after = [&](int32_t task) {
    return static_cast<int32_t>(std::upper_bound(starts.begin(), starts.end(), task) - starts.begin());
  };
  for (const Lifetime& life : lifetimes) {
    first_.push_back(rank_after(life.first) - 1);
    last_.push_back(rank_after(life.last) - 1);
  }

  std::vector<int32_t> by_start(lifetimes.size());
  std::iota(by_start.begin(), by_start.end(), 0);
  std::stable_sort(by_start.begin(), by_start.end(), [&](int32_t a, int32_t b) { return first_[a] < first_[b]; });
  count_pairs(by_start);
  if (num_pairs_ <= kMostPairsKept) list_pairs(by_start);
}

// A buffer that starts later overlaps `buffer` when it starts before `buffer` ends: the buffers after it in order of
// start, up to the first that starts too late.
void Conflicts::count_pairs(std::span<const int32_t> by_start) {
  std::vector<int64_t> started(num_ranks_ + 1, 0);  // buffers with a start before rank i
  for (const int32_t buffer : by_start) ++started[first_[buffer] + 1];
  std::partial_sum(started.begin(), started.end(), started.begin());
  for (int64_t i = 0; i < static_cast<int64_t>(by_start.size()); ++i) {
    num_pairs_ += started[last_[by_start[i]] + 1] - i - 1;
  }
}

void Conflicts::list_pairs(std::span<const int32_t> by_start) {
  const auto for_each_pair = [&](auto visit) {
    for (size_t i = 0; i < by_start.size(); ++i) {
      for (size_t j = i + 1; j < by_start.size() && first_[by_start[j]] <= last_[by_start[i]]; ++j) {
        visit(by_start[i], by_start[j]);
      }
    }
  };
  row_.assign(by_start.size() + 1, 0);
  for_each_pair([&](int32_t a, int32_t b) { ++row_[a + 1], ++row_[b + 1]; });
  std::partial_sum(row_.begin(), row_.end(), row_.begin());
  others_.resize(2 * num_pairs_);
  std::vector<int64_t> next(row_.begin(), row_.end() - 1);
  for_each_pair([&](int32_t a, int32_t b) {
    others_[next[a]++] = b;
    others_[next[b]++] = a;
  });
}

// How a buffer chooses among the gaps that its neighbours leave.
enum class GapChoice : uint8_t { kLowest, kTightest };

namespace {

constexpr int64_t kUnplaced = -1;

// The order in which buffers are placed.
enum class Rule : uint8_t { kSize, kPressure, kArea, kLife, kStart };

constexpr std::array kAttempts = {
    std::pair{Rule::kSize, GapChoice::kTightest},  std::pair{Rule::kPressure, GapChoice::kLowest},
    std::pair{Rule::kArea, GapChoice::kTightest},  std::pair{Rule::kPressure, GapChoice::kTightest},
    std::pair{Rule::kSize, GapChoice::kLowest},    std::pair{Rule::kLife, GapChoice::kTightest},
    std::pair{Rule::kStart, GapChoice::kTightest}, std::pair{Rule::kStart, GapChoice::kLowest},
};

// Bounds of the repair: it takes at most a few milliseconds for any Program.
constexpr int32_t kMostRepairedBuffers = 5'000;
constexpr int64_t kRepairVisits = 1'000'000;
constexpr int64_t kMostRepairs = 200;

struct Interval {
  int64_t begin;
  int64_t end;
};

std::vector<int64_t> rounded(std::span<const int64_t> bytes) {
  std::vector<int64_t> sizes(bytes.size());
  int64_t total = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    NG_CHECK(bytes[i] >= 0, "a buffer of ", bytes[i], " bytes");
    int64_t end = 0;
    const bool overflow = __builtin_add_overflow(bytes[i], kArenaAlignment - 1, &end) ||
                          __builtin_add_overflow(total, end & -kArenaAlignment, &total);
    if (overflow)
      throw UserError(cat("intermediate results add up to more than 2^63 bytes; buffer ", i, " alone has ", bytes[i]));
    sizes[i] = end & -kArenaAlignment;
  }
  return sizes;
}

}  // namespace

int64_t most_alive(std::span<const Lifetime> lifetimes, std::span<const int64_t> bytes) {
  int32_t end = 0;
  for (const Lifetime& life : lifetimes) end = std::max(end, life.last + 1);
  std::vector<int64_t> alive(end + 1, 0);  // until the prefix sum: the change before each task
  const std::vector<int64_t> sizes = rounded(bytes);
  for (size_t i = 0; i < sizes.size(); ++i) {
    alive[lifetimes[i].first] += sizes[i];
    alive[lifetimes[i].last + 1] -= sizes[i];
  }
  std::partial_sum(alive.begin(), alive.end(), alive.begin());
  return *std::ranges::max_element(alive);
}

namespace {

// Places the buffers of one set of sizes, again and again in different orders.
class Greedy {
 public:
  Greedy(const Conflicts& conflicts, std::vector<int64_t> sizes)
      : conflicts_(conflicts), sizes_(std::move(sizes)), alive_(conflicts.num_ranks() + 1, 0), offsets_(sizes_.size()) {
    for (int32_t i = 0; i < conflicts.size(); ++i) {
      alive_[conflicts.first(i)] += sizes_[i];
      alive_[conflicts.last(i) + 1] -= sizes_[i];
    }
    std::partial_sum(alive_.begin(), alive_.end(), alive_.begin());
    lower_bound_ = *std::max_element(alive_.begin(), alive_.end());
  }

  int64_t lower_bound() const { return lower_bound_; }
  int64_t top() const { return top_; }
  const std::vector<int64_t>& offsets() const { return offsets_; }
  int64_t size(int32_t buffer) const { return sizes_[buffer]; }

  // Buffers with bytes, in the order of `rule`; equals stand in the order of their start.
  std::vector<int32_t> order_by(Rule rule);

  // Sets offsets() and top() to those of this order. Returns false as soon as top() reaches `limit`.
  bool place(std::span<const int32_t> order, GapChoice fit, int64_t limit);

 private:
  using Key = std::tuple<int64_t, int64_t, int32_t, int32_t>;
  Key key(Rule rule, int32_t buffer) const;
  int64_t find_offset(int32_t buffer, GapChoice fit);
  void measure_pressure();

  const Conflicts& conflicts_;
  std::vector<int64_t> sizes_;
  std::vector<int64_t> alive_;     // bytes, per rank
  std::vector<int64_t> pressure_;  // per buffer: the most bytes alive during its life; filled on first use
  std::vector<int64_t> offsets_;
  std::vector<Interval> taken_;
  int64_t lower_bound_ = 0;
  int64_t top_ = 0;
};

void Greedy::measure_pressure() {
  pressure_.resize(sizes_.size());
  for (int32_t i = 0; i < conflicts_.size(); ++i) {
    pressure_[i] = *std::max_element(alive_.begin() + conflicts_.first(i), alive_.begin() + conflicts_.last(i) + 1);
  }
}

Greedy::Key Greedy::key(Rule rule, int32_t buffer) const {
  const int32_t first = conflicts_.first(buffer);
  const int64_t life = conflicts_.last(buffer) - first + 1;
  const int64_t size = sizes_[buffer];
  switch (rule) {
    case Rule::kSize: return {-size, -life, first, buffer};
    case Rule::kPressure: return {-pressure_[buffer], -size, first, buffer};
    // Areas are compared in cache lines, and saturate.
    case Rule::kArea:
      return {-(size / kArenaAlignment > INT64_MAX / life ? INT64_MAX : size / kArenaAlignment * life), -size, first,
              buffer};
    case Rule::kLife: return {-life, -size, first, buffer};
    case Rule::kStart: return {first, -size, first, buffer};
  }
  return {};
}

std::vector<int32_t> Greedy::order_by(Rule rule) {
  if (rule == Rule::kPressure && pressure_.empty()) measure_pressure();
  std::vector<Key> keys;
  keys.reserve(sizes_.size());
  for (int32_t i = 0; i < conflicts_.size(); ++i) {
    if (sizes_[i] > 0) keys.push_back(key(rule, i));
  }
  std::sort(keys.begin(), keys.end());
  std::vector<int32_t> order(keys.size());
  std::transform(keys.begin(), keys.end(), order.begin(), [](const Key& k) { return std::get<3>(k); });
  return order;
}

int64_t Greedy::find_offset(int32_t buffer, GapChoice fit) {
  taken_.clear();
  conflicts_.for_each(buffer, [&](int32_t other) {
    if (offsets_[other] != kUnplaced) taken_.push_back({offsets_[other], offsets_[other] + sizes_[other]});
  });
  std::sort(taken_.begin(), taken_.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });

  int64_t free_from = 0;
  int64_t best = kUnplaced;
  int64_t best_gap = INT64_MAX;
  for (const Interval& interval : taken_) {
    const int64_t gap = interval.begin - free_from;
    if (gap >= sizes_[buffer] && gap < best_gap) {
      if (fit == GapChoice::kLowest) return free_from;
      best = free_from;
      best_gap = gap;
    }
    free_from = std::max(free_from, interval.end);
  }
  return best == kUnplaced ? free_from : best;
}

bool Greedy::place(std::span<const int32_t> order, GapChoice fit, int64_t limit) {
  std::fill(offsets_.begin(), offsets_.end(), kUnplaced);
  top_ = 0;
  for (const int32_t buffer : order) {
    const int64_t offset = find_offset(buffer, fit);
    top_ = std::max(top_, offset + sizes_[buffer]);
    if (top_ >= limit) return false;
    offsets_[buffer] = offset;
  }
  return true;
}

}  // namespace

struct ArenaSolver::State {
  explicit State(std::span<const Lifetime> lifetimes) : conflicts(lifetimes) {}

  // Keeps the attempt if it is better than the best so far. Returns whether the best is optimal.
  bool attempt(Greedy& greedy, std::vector<int32_t> order, GapChoice fit);
  bool attempt_last(Greedy& greedy);
  void repair(Greedy& greedy);

  const Conflicts conflicts;
  Placement best;
  std::vector<int32_t> best_order;
  GapChoice best_fit = GapChoice::kTightest;
};

bool ArenaSolver::State::attempt(Greedy& greedy, std::vector<int32_t> order, GapChoice fit) {
  if (greedy.place(order, fit, best.arena_bytes)) {
    best.arena_bytes = greedy.top();
    best.offsets = greedy.offsets();
    best_order = std::move(order);
    best_fit = fit;
  }
  return best.arena_bytes == best.lower_bound_bytes;
}

// Attempts the best order of the previous call, completed by the buffers that had no bytes then.
bool ArenaSolver::State::attempt_last(Greedy& greedy) {
  if (best_order.empty()) return false;
  std::vector<bool> listed(conflicts.size(), false);
  std::vector<int32_t> order;
  for (const int32_t buffer : best_order) {
    listed[buffer] = true;
    if (greedy.size(buffer) > 0) order.push_back(buffer);
  }
  for (int32_t i = 0; i < conflicts.size(); ++i) {
    if (!listed[i] && greedy.size(i) > 0) order.push_back(i);
  }
  return attempt(greedy, std::move(order), best_fit);
}

// Buffers at the top of the arena were placed too late: the next attempt places them first. An attempt that is no
// better than the one before still serves as the base of the next, so that the walk leaves plateaus.
void ArenaSolver::State::repair(Greedy& greedy) {
  const int64_t visits = 2 * conflicts.num_pairs() + conflicts.size() + 1;
  const int64_t repairs = std::min(kMostRepairs, kRepairVisits / visits);
  std::vector<int32_t> order = best_order;
  const GapChoice fit = best_fit;
  greedy.place(order, fit, INT64_MAX);
  for (int64_t i = 0; i < repairs; ++i) {
    std::stable_partition(order.begin(), order.end(),
                          [&](int32_t b) { return greedy.offsets()[b] + greedy.size(b) == greedy.top(); });
    greedy.place(order, fit, INT64_MAX);
    if (greedy.top() >= best.arena_bytes) continue;
    if (attempt(greedy, order, fit)) return;
  }
}

ArenaSolver::ArenaSolver(std::span<const Lifetime> lifetimes) : state_(std::make_unique<State>(lifetimes)) {}
ArenaSolver::~ArenaSolver() = default;
ArenaSolver::ArenaSolver(ArenaSolver&&) noexcept = default;
ArenaSolver& ArenaSolver::operator=(ArenaSolver&&) noexcept = default;

Placement ArenaSolver::place(std::span<const int64_t> bytes) {
  State& state = *state_;
  NG_CHECK(static_cast<int32_t>(bytes.size()) == state.conflicts.size());
  Greedy greedy(state.conflicts, rounded(bytes));
  state.best = {.offsets = std::vector<int64_t>(bytes.size(), 0),
                .arena_bytes = INT64_MAX,
                .lower_bound_bytes = greedy.lower_bound()};

  bool done = state.attempt_last(greedy);
  for (size_t i = 0; i < kAttempts.size() && !done; ++i) {
    const auto [rule, fit] = kAttempts[i];
    done = state.attempt(greedy, greedy.order_by(rule), fit);
  }
  if (!done && state.conflicts.size() < kMostRepairedBuffers) state.repair(greedy);
  for (int64_t& offset : state.best.offsets) offset = std::max<int64_t>(offset, 0);
  return std::move(state.best);
}

}  // namespace npugraph::program
