// SPDX-License-Identifier: Apache-2.0
#include "codegen/task/sequence.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/error.h"

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

}  // namespace npugraph::codegen
