// SPDX-License-Identifier: Apache-2.0
#include "codegen/task/sequence.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/error.h"

namespace npugraph::codegen {
namespace {

struct Sequence {
  std::vector<SequencePart> parts;
  int64_t workers;

  Sequence(std::vector<SequencePart> all, int64_t most) : parts(std::move(all)), workers(most) {}
  ~Sequence() {
    for (const SequencePart& part : parts) {
      if (part.task.destroy != nullptr) part.task.destroy(part.task.context);
    }
  }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
};

// One state per part, null if the part has none.
using States = std::vector<void*>;

// Calls visit(part index, the part's own call) until it returns false. Returns whether all calls returned true.
template <typename Visit>
bool for_each_call(const Sequence& sequence, const ng_call& call, Visit visit) {
  ng_call own = call;
  own.num_defined = 0;
  for (size_t i = 0; i < sequence.parts.size(); ++i) {
    const SequencePart& part = sequence.parts[i];
    own.num_buffers = part.buffers;
    own.num_scalars = part.scalars;
    if (!visit(i, own)) return false;
    own.buffers += part.buffers;
    own.scalars += part.scalars;
  }
  return true;
}

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

ng_status run_sequence(void* context, void* state, ng_call* call) {
  const Sequence& sequence = sequence_of(context);
  const States& states = *static_cast<const States*>(state);
  PartHost host(*call->host, sequence.workers);
  const bool done = for_each_call(sequence, *call, [&](size_t i, ng_call& own) {
    const SequencePart& part = sequence.parts[i];
    host.enter(part.label);
    own.host = host.get();
    return part.task.run(part.task.context, states[i], &own) == NG_OK;
  });
  return done ? NG_OK : NG_ERROR;
}

ng_status bind_sequence(void* context, const ng_call* call, void** state) {
  const Sequence& sequence = sequence_of(context);
  if (*state == nullptr) *state = new States(sequence.parts.size(), nullptr);
  States& states = *static_cast<States*>(*state);
  const bool bound = for_each_call(sequence, *call, [&](size_t i, const ng_call& own) {
    const ng_task& task = sequence.parts[i].task;
    return task.bind == nullptr || task.bind(task.context, &own, &states[i]) == NG_OK;
  });
  return bound ? NG_OK : NG_ERROR;
}

void unbind_sequence(void* context, void* state) {
  const Sequence& sequence = sequence_of(context);
  auto* states = static_cast<States*>(state);
  for (size_t i = 0; i < states->size(); ++i) {
    const ng_task& task = sequence.parts[i].task;
    if ((*states)[i] != nullptr) task.unbind(task.context, (*states)[i]);
  }
  delete states;
}

// The parts run one after the other, so the largest workspace serves all of them.
int64_t workspace_of_sequence(void* context, const ng_call* call) {
  int64_t most = 0;
  const bool known = for_each_call(sequence_of(context), *call, [&](size_t i, const ng_call& own) {
    const ng_task& task = sequence_of(context).parts[i].task;
    const int64_t bytes = task.workspace == nullptr ? 0 : task.workspace(task.context, &own);
    most = std::max(most, bytes);
    return bytes >= 0;
  });
  return known ? most : -1;
}

}  // namespace

ng_task make_sequence(std::vector<SequencePart> parts, int64_t workers) {
  return {
      .context = new Sequence(std::move(parts), workers),
      .run = run_sequence,
      .bind = bind_sequence,
      .unbind = unbind_sequence,
      .workspace = workspace_of_sequence,
      .destroy = [](void* context) { delete static_cast<Sequence*>(context); },
  };
}

}  // namespace npugraph::codegen
