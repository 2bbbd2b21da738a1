// SPDX-License-Identifier: Apache-2.0
#include "codegen/task/compound.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "codegen/task/work_items.h"

namespace npugraph::codegen {

namespace {

struct Sequence {
  Parts parts;
  int64_t workers;
};

// The services of the runtime, as a part sees them.
class PartHost {
 public:
  PartHost(const ng_host& host, int64_t workers) : host_(host), limit_(workers) {
    own_ = {.self = this,
            .workers = workers > 0 ? static_cast<int32_t>(std::min<int64_t>(workers, host.workers)) : host.workers,
            .parallel_for = workers > 0 && workers < host.workers ? run_in_few : run_in_all,
            .set_error = set_error,
            .count_copied = count_copied};
  }

  const ng_host* get() const { return &own_; }
  void enter(const std::string& label) { label_ = &label; }

 private:
  static const PartHost& self(const ng_host* host) { return *static_cast<const PartHost*>(host->self); }

  static void run_in_all(const ng_host* host, int64_t begin, int64_t end, int64_t grain,
                         void (*body)(void*, int64_t, int64_t), void* arg) {
    const ng_host& real = self(host).host_;
    real.parallel_for(&real, begin, end, grain, body, arg);
  }

  // Runs as many turns as threads may take part; each turn takes one range after the other.
  static void run_in_few(const ng_host* host, int64_t begin, int64_t end, int64_t grain,
                         void (*body)(void*, int64_t, int64_t), void* arg) {
    struct Turns {
      std::atomic<int64_t> next;
      int64_t end, step;
      void (*body)(void*, int64_t, int64_t);
      void* arg;
    };
    const ng_host& real = self(host).host_;
    const int64_t limit = self(host).limit_;
    constexpr int64_t kRangesPerTurn = 4;
    const int64_t step = std::max({grain, (end - begin) / (kRangesPerTurn * limit), int64_t{1}});
    Turns turns = {.next = begin, .end = end, .step = step, .body = body, .arg = arg};
    const auto take = [](void* opaque, int64_t, int64_t) {
      auto& all = *static_cast<Turns*>(opaque);
      for (int64_t i = all.next.fetch_add(all.step); i < all.end; i = all.next.fetch_add(all.step))
        all.body(all.arg, i, std::min(i + all.step, all.end));
    };
    if (limit == 1) return take(&turns, 0, 1);
    real.parallel_for(&real, 0, limit, 1, take, &turns);
  }

  static void set_error(const ng_host* host, const char* message) {
    const PartHost& part = self(host);
    part.host_.set_error(&part.host_, cat(message, " (", *part.label_, ")").c_str());
  }

  static void count_copied(const ng_host* host, int64_t bytes) {
    const ng_host& real = self(host).host_;
    real.count_copied(&real, bytes);
  }

  const ng_host& host_;
  const int64_t limit_;
  const std::string* label_ = nullptr;
  ng_host own_;
};

const Sequence& sequence_of(void* context) { return *static_cast<const Sequence*>(context); }

ng_status bind_sequence(void* context, const ng_call* call, void** state) {
  if (*state == nullptr) *state = new PartStates;
  return sequence_of(context).parts.bind(*call, *static_cast<PartStates*>(*state));
}

void unbind_sequence(void* context, void* state) {
  auto* states = static_cast<PartStates*>(state);
  sequence_of(context).parts.unbind(*states);
  delete states;
}

// The parts run one after the other, so the largest workspace serves all of them.
int64_t workspace_of_sequence(void* context, const ng_call* call) {
  const Parts& parts = sequence_of(context).parts;
  int64_t most = 0;
  const bool known = parts.for_each_call(*call, [&](size_t i, const ng_call& own) {
    const int64_t bytes = parts.workspace(i, own);
    most = std::max(most, bytes);
    return bytes >= 0;
  });
  return known ? most : -1;
}

}  // namespace

ng_status run_in_turn(const Parts& parts, const PartStates& states, int64_t workers, const ng_call& call) {
  PartHost host(*call.host, workers);
  const bool done = parts.for_each_call(call, [&](size_t i, ng_call& own) {
    host.enter(parts[i].label);
    own.host = host.get();
    return parts[i].task.run(parts[i].task.context, states[i], &own) == NG_OK;
  });
  return done ? NG_OK : NG_ERROR;
}

ng_task make_sequence(std::vector<Part> parts, int64_t workers) {
  return {
      .context = new Sequence{.parts = Parts(std::move(parts)), .workers = workers},
      .run =
          [](void* context, void* state, ng_call* call) {
            const Sequence& sequence = sequence_of(context);
            return run_in_turn(sequence.parts, *static_cast<const PartStates*>(state), sequence.workers, *call);
          },
      .bind = bind_sequence,
      .unbind = unbind_sequence,
      .workspace = workspace_of_sequence,
      .destroy = [](void* context) { delete static_cast<Sequence*>(context); },
  };
}

namespace {

constexpr int64_t kAlignment = 64;  // of a workspace

// The parts, those that take longest first.
std::vector<size_t> longest_first(const std::vector<double>& times) {
  std::vector<size_t> order(times.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return times[i]; });
  return order;
}

struct Group {
  Group(std::vector<Part> all, GroupTimes given)
      : parts(std::move(all)), times(std::move(given)), order(longest_first(times.parts)) {
    uint32_t buffer = 0, scalar = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      first_buffer.push_back(buffer);
      first_scalar.push_back(scalar);
      buffer += parts[i].buffers;
      scalar += parts[i].scalars;
    }
  }

  const Parts parts;
  const GroupTimes times;
  const std::vector<size_t> order;
  std::vector<uint32_t> first_buffer, first_scalar;  // per part
};

struct State {
  PartStates states;
  std::vector<int64_t> workspace_at;  // per part
  // The last decision: twice the number of workers, and 1 if the parts run at the same time. Runs may decide at once.
  std::atomic<int32_t> decision{0};

  bool is_together(const GroupTimes& times, int32_t workers) {
    const int32_t known = decision.load(std::memory_order_relaxed);
    if (known / 2 == workers) return known % 2 == 1;
    const bool together = is_faster_together(times, workers);
    decision.store(2 * workers + (together ? 1 : 0), std::memory_order_relaxed);
    return together;
  }
};

// A run of all parts at the same time.
class Run {
 public:
  Run(const Group& group, const State& state, const ng_call& call) : group_(group), state_(state), call_(call) {}

  ng_status run() {
    const auto count = static_cast<int64_t>(group_.order.size());
    for_items_by_turns(*call_.host, count, kGrainMultiplications, [&](int64_t i) { run_part(group_.order[i]); });
    if (const int64_t copied = copied_.load(std::memory_order_relaxed); copied > 0)
      call_.host->count_copied(call_.host, copied);
    if (!failed_) return NG_OK;
    call_.host->set_error(call_.host, cat(message_, " (", group_.parts[*failed_].label, ")").c_str());
    return NG_ERROR;
  }

 private:
  // The services of the runtime for a part, which runs in one thread.
  struct PartHost {
    Run* run;
    std::string message;
    ng_host table{
        .self = this,
        .workers = 1,
        .parallel_for =
            [](const ng_host*, int64_t begin, int64_t end, int64_t, void (*body)(void*, int64_t, int64_t), void* arg) {
              if (begin < end) body(arg, begin, end);
            },
        .set_error = [](const ng_host* host,
                        const char* message) { static_cast<PartHost*>(host->self)->message = message; },
        .count_copied =
            [](const ng_host* host, int64_t bytes) {
              static_cast<PartHost*>(host->self)->run->copied_.fetch_add(bytes, std::memory_order_relaxed);
            }};
  };

  void run_part(size_t i) {
    const Part& part = group_.parts[i];
    PartHost host{.run = this, .message = {}};
    ng_call own = call_;
    own.buffers += group_.first_buffer[i];
    own.scalars += group_.first_scalar[i];
    own.num_buffers = part.buffers;
    own.num_scalars = part.scalars;
    own.num_defined = 0;
    own.workspace = static_cast<char*>(call_.workspace) + state_.workspace_at[i];
    own.host = &host.table;
    if (part.task.run(part.task.context, state_.states[i], &own) == NG_OK) return;
    const std::lock_guard lock(mutex_);
    if (failed_ && *failed_ < i) return;
    failed_ = i;
    message_ = std::move(host.message);
  }

  const Group& group_;
  const State& state_;
  const ng_call& call_;
  std::atomic<int64_t> copied_{0};
  std::mutex mutex_;  // guards the members below
  std::optional<size_t> failed_;
  std::string message_;
};

const Group& group_of(void* context) { return *static_cast<const Group*>(context); }

ng_status run_group(void* context, void* state, ng_call* call) {
  const Group& group = group_of(context);
  State& bound = *static_cast<State*>(state);
  if (bound.is_together(group.times, call->host->workers)) return Run(group, bound, *call).run();
  return run_in_turn(group.parts, bound.states, 0, *call);
}

// Sets where the workspace of each part begins. Returns the bytes of all, or -1 if a part does not know its own.
int64_t place_workspaces(const Group& group, const ng_call& call, std::vector<int64_t>& at) {
  int64_t end = 0;
  at.clear();
  const bool known = group.parts.for_each_call(call, [&](size_t i, const ng_call& own) {
    const int64_t bytes = group.parts.workspace(i, own);
    at.push_back(end);
    end += round_up(std::max<int64_t>(bytes, 0), kAlignment);
    return bytes >= 0;
  });
  return known ? end : -1;
}

ng_status bind_group(void* context, const ng_call* call, void** state) {
  const Group& group = group_of(context);
  if (*state == nullptr) *state = new State;
  State& bound = *static_cast<State*>(*state);
  if (group.parts.bind(*call, bound.states) != NG_OK) return NG_ERROR;
  return place_workspaces(group, *call, bound.workspace_at) < 0 ? NG_ERROR : NG_OK;
}

}  // namespace

bool is_faster_together(const GroupTimes& times, int32_t workers) {
  if (workers < 2) return false;
  std::vector<double> busy(std::min(static_cast<size_t>(workers), times.parts.size()), 0);
  double apart = 0;
  for (const size_t i : longest_first(times.parts)) {
    const double alone = times.parts[i];
    *std::ranges::min_element(busy) += alone;
    apart += std::min(alone, alone / workers + times.region);
  }
  return *std::ranges::max_element(busy) + times.region < apart;
}

ng_task make_group(std::vector<Part> parts, GroupTimes times) {
  return {
      .context = new Group(std::move(parts), std::move(times)),
      .run = run_group,
      .bind = bind_group,
      .unbind =
          [](void* context, void* state) {
            auto* bound = static_cast<State*>(state);
            group_of(context).parts.unbind(bound->states);
            delete bound;
          },
      .workspace =
          [](void* context, const ng_call* call) {
            std::vector<int64_t> at;
            return place_workspaces(group_of(context), *call, at);
          },
      .destroy = [](void* context) { delete static_cast<Group*>(context); },
  };
}

}  // namespace npugraph::codegen
