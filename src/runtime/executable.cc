// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/counters.h"
#include "base/error.h"
#include "base/fork.h"
#include "kernels/registry.h"
#include "runtime/blueprint.h"
#include "runtime/instance.h"
#include "runtime/instance_cache.h"
#include "runtime/lease.h"
#include "runtime/ledger.h"
#include "runtime/observer.h"
#include "runtime/replay.h"
#include "runtime/report.h"
#include "runtime/task_error.h"
#include "runtime/worker_pool.h"

namespace npugraph::runtime {

using program::kNone;

namespace {

// Our own kernels are built here, generated code by the compiler; all else is the host's.
ng_task build_task(Host& host, const Options& options, const program::Program& program, const program::Task& task) {
  if (program::is_generated(task.kind)) {
    if (!options.generate) throw UserError(cat(task.name, " is generated code, and nobody here makes it"));
    return options.generate(task);
  }
  const bool is_kernel = task.kind == program::TaskKind::kKernel;
  const kernels::Kernel* kernel = is_kernel ? kernels::find(task.name) : nullptr;
  return kernel != nullptr ? kernel->build(task) : host.build(program, task);
}

// The tasks of a Program, destroyed together.
class BuiltTasks {
 public:
  BuiltTasks(const program::Program& program, Host& host, const Options& options) {
    tasks_.reserve(program.tasks.size());
    try {
      for (const auto& task : program.tasks) tasks_.push_back(build_task(host, options, program, task));
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~BuiltTasks() { destroy(); }
  BuiltTasks(const BuiltTasks&) = delete;
  BuiltTasks& operator=(const BuiltTasks&) = delete;

  std::span<const ng_task> all() const { return tasks_; }

 private:
  void destroy() {
    for (const ng_task& task : tasks_) {
      if (task.destroy != nullptr) task.destroy(task.context);
    }
  }
  std::vector<ng_task> tasks_;
};

// Workers spin while one of these is alive.
class ReplayInProgress {
 public:
  ReplayInProgress() { WorkerPool::instance().begin_replay(); }
  ~ReplayInProgress() { WorkerPool::instance().end_replay(); }
  ReplayInProgress(const ReplayInProgress&) = delete;
  ReplayInProgress& operator=(const ReplayInProgress&) = delete;
};

// The bits of symbols that come from the inputs. Two inputs are the same key when their bits are: a float symbol that is NaN
// finds its Instance again.
SymbolKey bits_of(const Blueprint& blueprint, const std::vector<int32_t>& symbols, std::span<const BoundInput> inputs) {
  SymbolKey bits;
  bits.reserve(symbols.size());
  for (const int32_t s : symbols) {
    const program::Symbol& symbol = blueprint.program->symbols[s];
    const BoundInput& input = inputs[symbol.input];
    const bool is_offset = symbol.dim == program::kStorageOffset;
    bits.push_back(symbol.dim == kNone ? input.scalar.i : is_offset ? input.storage_offset : input.sizes[symbol.dim]);
  }
  return bits;
}

SymbolKey key_of(const Blueprint& blueprint, std::span<const BoundInput> inputs) {
  return bits_of(blueprint, blueprint.key_symbols, inputs);
}

void set_symbols(const Blueprint& blueprint, const std::vector<int32_t>& which, const SymbolKey& bits,
                 std::vector<Scalar>& symbols) {
  for (size_t i = 0; i < which.size(); ++i) {
    symbols[which[i]].kind = blueprint.program->symbols[which[i]].kind;
    symbols[which[i]].i = bits[i];  // of a float too
  }
}

// Those that are no part of the key are 0.
std::vector<Scalar> symbols_of(const Blueprint& blueprint, const SymbolKey& key) {
  std::vector<Scalar> symbols(blueprint.program->symbols.size());
  set_symbols(blueprint, blueprint.key_symbols, key, symbols);
  return symbols;
}

}  // namespace

struct Executable::State {
  State(std::shared_ptr<const program::Program> source, Host& process, Options wanted, std::string label)
      : blueprint(std::move(source)),
        host(process),
        options(wanted),
        name(std::move(label)),
        tasks(*blueprint.program, process, options),
        cache(static_cast<size_t>(std::max<int64_t>(wanted.max_instances, 1))) {}
  ~State() {
    follow_fork();
    host.trim();
  }

  // One call, from the lease to its return.
  struct Call {
    SymbolKey key;
    Lease* lease = nullptr;
    Instance* instance = nullptr;
    std::unique_ptr<Instance> own;  // where Instances are not kept
    RunMode mode = RunMode::kReplay;
    bool rebound = false;
    bool refreshed = false;
    int64_t staged_bytes = 0;
    std::vector<TaskTime> times;  // of the tasks, when this run was timed
  };

  void acquire(Call& call);
  Lease* find_lease(Call& call);
  void capture(Call& call, const BoundInputs& inputs);
  RunStatus bind(Call& call, const BoundInputs& inputs);
  RunStatus replay(Call& call, const BoundInputs& inputs, std::span<BoundOutput> outputs, std::vector<int64_t>& dims);
  void finish(Call& call, bool completed);
  void count(const Call& call);
  // Gives up what calls of threads that are not in this process hold. Under the mutex.
  void follow_fork();
  // Here and in the counters of the process. Under the mutex.
  void add(int64_t Counters::* count, int64_t more = 1);

  const Blueprint blueprint;
  Host& host;
  const Options options;
  const std::string name;
  const BuiltTasks tasks;

  mutable std::mutex mutex;  // guards what follows
  const HeldAcrossFork held_across_fork{mutex, 0};
  uint64_t generation = fork_generation();
  std::unique_ptr<std::condition_variable> lease_came_free = std::make_unique<std::condition_variable>();
  std::vector<std::unique_ptr<Lease>> leases;
  int32_t next_lease = 0;
  InstanceCache cache;  // after the leases: Instances go first
  Counters counters;
  std::optional<std::vector<Scalar>> latest_symbols;
  std::vector<TaskTime> times;  // of the tasks, in the latest run that was timed
  int64_t scratch_bytes = 0;
  int64_t bound_bytes = 0;
  int64_t undeclared_copies = 0;  // bytes that the last run copied, beyond what its tasks declare
};

void Executable::State::follow_fork() {
  if (generation == fork_generation()) return;
  generation = fork_generation();
  static_cast<void>(lease_came_free.release());  // destroying it waits for those who wait
  lease_came_free = std::make_unique<std::condition_variable>();
  std::erase_if(leases, [&](std::unique_ptr<Lease>& lease) {
    const bool lost = lease->busy && lease->generation != generation && lease->holder != thread_that_forked();
    if (lost) cache.abandon(*lease);
    return lost && lease.release() != nullptr;
  });
}

// A lease that is free, rather one that has an Instance for the key; null when all are busy and no more are allowed.
Lease* Executable::State::find_lease(Call& call) {
  Lease* free_lease = nullptr;
  bool nested = false;
  for (const auto& lease : leases) {
    if (lease->busy) {
      nested |= lease->holder == std::this_thread::get_id();
      continue;
    }
    if (free_lease == nullptr) free_lease = lease.get();
    call.instance = cache.find(call.key, *lease);
    if (call.instance != nullptr) return lease.get();
  }
  if (free_lease != nullptr) return free_lease;
  if (static_cast<int64_t>(leases.size()) >= std::max<int64_t>(options.max_concurrent, 1) && !nested) return nullptr;
  leases.push_back(std::make_unique<Lease>(name, next_lease++));
  return leases.back().get();
}

void Executable::State::add(int64_t Counters::* count, int64_t more) {
  static const auto of_process = [] {
    std::array<Counter*, std::size(kCounterNames)> found;
    for (size_t i = 0; i < found.size(); ++i) found[i] = &process_counters().at(kCounterNames[i].name);
    return found;
  }();
  for (size_t i = 0; i < of_process.size(); ++i) {
    if (kCounterNames[i].count == count) of_process[i]->add(more);
  }
  counters.*count += more;
}

void Executable::State::acquire(Call& call) {
  std::unique_lock lock(mutex);
  follow_fork();
  while ((call.lease = find_lease(call)) == nullptr) lease_came_free->wait(lock);
  call.lease->busy = true;
  call.lease->holder = std::this_thread::get_id();
  call.lease->generation = generation;
  call.lease->error.clear();
  add(call.instance != nullptr ? &Counters::instance_hits : &Counters::instance_misses);
}

void Executable::State::capture(Call& call, const BoundInputs& inputs) {
  call.mode = options.capture ? RunMode::kCapture : RunMode::kEager;
  const Range range(host, options.capture ? "acl_graph_capture" : nullptr);
  const int64_t begin = now_ns();
  std::vector<Scalar> symbols = symbols_of(blueprint, call.key);
  set_symbols(blueprint, blueprint.refreshed_symbols, bits_of(blueprint, blueprint.refreshed_symbols, inputs.all),
              symbols);
  const Specialise specialise = options.specialise ? options.specialise(symbols) : nullptr;
  auto made = std::make_unique<Instance>(blueprint, tasks.all(), host, *call.lease, std::move(symbols), specialise);
  const int64_t end = now_ns();
  call.instance = made.get();
  std::lock_guard lock(mutex);
  add(&Counters::captures);
  add(&Counters::capture_ns, end - begin);
  if (!options.capture) {
    if (counters.captures > 1) add(&Counters::recaptured_forced);
    call.own = std::move(made);
    return;
  }
  if (cache.was_evicted(call.key, *call.lease)) add(&Counters::recaptured_evicted);
  cache.insert(call.key, *call.lease, std::move(made));
}

RunStatus Executable::State::bind(Call& call, const BoundInputs& inputs) {
  Lease& lease = *call.lease;
  lease.service.workers = WorkerPool::instance().size();
  if (call.instance == nullptr) {
    capture(call, inputs);
  } else if (!blueprint.refreshed_symbols.empty()) {
    call.refreshed = call.instance->refresh(bits_of(blueprint, blueprint.refreshed_symbols, inputs.all));
  }
  if (const RunStatus status = call.instance->bind_inputs(inputs); status != RunStatus::kOk) return status;
  call.instance->bind_memory(lease.arena, lease.scratch);
  return RunStatus::kOk;
}

RunStatus Executable::State::replay(Call& call, const BoundInputs& inputs, std::span<BoundOutput> outputs,
                                    std::vector<int64_t>& dims) {
  if (const RunStatus status = bind(call, inputs); status != RunStatus::kOk) return status;
  Lease& lease = *call.lease;
  std::optional<Observer> observer;
  const bool timed = call.instance->replays == 1;
  if (timed || Observer::wanted()) [[unlikely]] {
    observer.emplace(blueprint, *call.instance, lease, name, call.mode, timed ? &call.times : nullptr);
  }
  Replay replay(blueprint, *call.instance, lease, host);
  {
    const Range first(host, call.mode == RunMode::kCapture ? "acl_graph_warm_up" : nullptr);
    const Range range(host, options.capture ? "acl_graph_replay" : "fx_run_eagerly");
    const ReplayInProgress in_progress;
    replay.run(observer ? &*observer : nullptr);
  }
  call.rebound = replay.rebound();
  replay.hand_out(outputs, dims);
  return RunStatus::kOk;
}

void Executable::State::count(const Call& call) {
  add(&Counters::replays);
  ++call.instance->replays;
  if (call.refreshed) add(&Counters::refreshes);
  if (call.rebound && call.mode == RunMode::kReplay) {
    add(&Counters::captures);
    add(&Counters::recaptured_new_symbols);
    ++call.instance->captures;
  }
  scratch_bytes = std::max(scratch_bytes, call.instance->scratch_bytes());
  bound_bytes = call.instance->input_bytes();
  undeclared_copies = call.staged_bytes + call.lease->copied_bytes;
  latest_symbols = call.instance->sizes().symbols();
  if (!call.times.empty()) times = call.times;
}

void Executable::State::finish(Call& call, bool completed) {
  std::unique_ptr<Lease> surplus;  // freed without the lock
  {
    std::lock_guard lock(mutex);
    if (completed) count(call);
    call.lease->busy = false;
    if (static_cast<int64_t>(leases.size()) > std::max<int64_t>(options.max_concurrent, 1)) {
      cache.drop(*call.lease);
      const auto at = std::ranges::find(leases, call.lease, &std::unique_ptr<Lease>::get);
      surplus = std::move(*at);
      leases.erase(at);
    }
  }
  lease_came_free->notify_one();
}

Executable::Executable(std::shared_ptr<const program::Program> program, Host& host, Options options, std::string name)
    : state_(std::make_unique<State>(std::move(program), host, options, std::move(name))) {}

Executable::~Executable() = default;

RunResult Executable::run(const BoundInputs& inputs, std::span<BoundOutput> outputs, std::vector<int64_t>& dims) {
  State& state = *state_;
  NG_CHECK(inputs.all.size() == state.blueprint.program->inputs.size(), "got ", inputs.all.size(), " inputs");
  NG_CHECK(outputs.size() == state.blueprint.program->outputs.size(), "got room for ", outputs.size(), " outputs");
  const Range range(state.host, state.options.label.empty() ? nullptr : state.options.label.c_str());
  State::Call call{.key = key_of(state.blueprint, inputs.all), .staged_bytes = inputs.staged_bytes};
  state.acquire(call);
  RunResult result;
  try {
    result.status = state.replay(call, inputs, outputs, dims);
  } catch (const TaskError& error) {
    result = {RunStatus::kTaskFailed, error.what(), error.task};
  } catch (const InputError& error) {
    result = {RunStatus::kInputRefused, error.what(), kNone};
  } catch (const InternalError&) {
    state.finish(call, false);
    throw;
  } catch (const std::exception& error) {
    result = {RunStatus::kTaskFailed, error.what(), kNone};
  }
  if (result.status != RunStatus::kOk) std::ranges::fill(outputs, BoundOutput{});
  state.finish(call, result.status == RunStatus::kOk);
  return result;
}

double Executable::time_tasks(const BoundInputs& inputs, int64_t times) {
  State& state = *state_;
  State::Call call{.key = key_of(state.blueprint, inputs.all)};
  state.acquire(call);
  int64_t begin = 0;
  try {
    if (state.bind(call, inputs) != RunStatus::kOk) throw UserError("inputs lie in memory as they must not");
    const ReplayInProgress in_progress;
    begin = now_ns();
    for (int64_t i = 0; i < times; ++i) Replay(state.blueprint, *call.instance, *call.lease, state.host).run(nullptr);
  } catch (...) {
    state.finish(call, false);
    throw;
  }
  const int64_t end = now_ns();
  state.finish(call, false);
  return static_cast<double>(end - begin) / static_cast<double>(times);
}

const program::Program& Executable::program() const { return *state_->blueprint.program; }

std::vector<InstanceInfo> Executable::instances() const {
  const State& state = *state_;
  std::lock_guard lock(state.mutex);
  std::vector<InstanceInfo> infos;
  for (const auto& entry : state.cache.entries()) {
    const std::vector<Scalar> symbols = symbols_of(state.blueprint, entry.key);
    const std::string key = key_text(state.blueprint, symbols);
    // Calls in parallel have one Instance each for the same sizes; to the user they are one.
    auto info = std::ranges::find(infos, key, &InstanceInfo::key);
    if (info == infos.end()) {
      info = infos.insert(info, InstanceInfo{.key = key});
      for (const int32_t s : state.blueprint.key_symbols) {
        info->symbols.emplace_back(state.blueprint.program->symbols[s].name, symbols[s]);
      }
    }
    info->captures += entry.instance->captures;
    info->replays += entry.instance->replays;
  }
  return infos;
}

MemoryInfo Executable::memory() const {
  const State& state = *state_;
  std::lock_guard lock(state.mutex);
  MemoryInfo info{.scratch_bytes = state.scratch_bytes, .bound_bytes_per_call = state.bound_bytes};
  for (const auto& entry : state.cache.entries()) {
    if (entry.instance->arena_bytes() < info.arena_bytes) continue;
    info.arena_bytes = entry.instance->arena_bytes();
    info.lower_bound_bytes = entry.instance->lower_bound_bytes();
    info.live_bytes = entry.instance->live_bytes();
  }
  for (const auto& constant : state.blueprint.program->constants) {
    if (constant.derived) info.derived_constant_bytes += constant.bytes;
  }
  if (state.latest_symbols) {
    const Sizes sizes = evaluate_all(state.blueprint, *state.latest_symbols);
    info.heap_bytes = peak_heap_bytes(state.blueprint, sizes);
    info.copied_bytes_per_replay = copied_bytes(state.blueprint, sizes) + state.undeclared_copies;
  }
  return info;
}

LivePeak Executable::live_peak() const {
  const State& state = *state_;
  std::lock_guard lock(state.mutex);
  if (!state.latest_symbols) return {};
  return live_peak_of(state.blueprint, evaluate_all(state.blueprint, *state.latest_symbols));
}

std::vector<BufferLife> Executable::lives() const {
  const State& state = *state_;
  std::lock_guard lock(state.mutex);
  if (!state.latest_symbols) return {};
  std::vector<BufferLife> lives = lives_of(state.blueprint, evaluate_all(state.blueprint, *state.latest_symbols));
  const std::string key = key_text(state.blueprint, *state.latest_symbols);
  const auto is_latest = [&](const InstanceCache::Entry& entry) {
    return key_text(state.blueprint, entry.instance->sizes().symbols()) == key;
  };
  const auto& entries = state.cache.entries();
  const auto latest = std::ranges::find_if(entries, is_latest);
  if (latest != entries.end()) latest->instance->add_places(lives);
  return lives;
}

Counters Executable::counters() const {
  std::lock_guard lock(state_->mutex);
  return state_->counters;
}

std::vector<TaskTraffic> Executable::traffic() const {
  const State& state = *state_;
  std::lock_guard lock(state.mutex);
  if (!state.latest_symbols) return std::vector<TaskTraffic>(state.blueprint.program->tasks.size());
  auto traffic = task_traffic(state.blueprint, evaluate_all(state.blueprint, *state.latest_symbols));
  int64_t start = INT64_MAX;
  for (const TaskTime& time : state.times) start = std::min(start, time.begin_ns);
  for (size_t t = 0; t < state.times.size(); ++t) {
    traffic[t].begin_nanoseconds = state.times[t].begin_ns - start;
    traffic[t].nanoseconds = state.times[t].end_ns - state.times[t].begin_ns;
  }
  return traffic;
}

void Executable::trim() {
  State& state = *state_;
  std::lock_guard lock(state.mutex);
  state.cache.drop_idle();
  std::erase_if(state.leases, [](const auto& lease) { return !lease->busy; });
}

}  // namespace npugraph::runtime
