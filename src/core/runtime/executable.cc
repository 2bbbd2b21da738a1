// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "base/counters.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/trace.h"
#include "base/words.h"
#include "kernels/kernel_table.h"
#include "runtime/executable_state.h"
#include "runtime/replay.h"
#include "runtime/task_error.h"
#include "runtime/threads/worker_pool.h"
#include "runtime/watch/observer.h"

namespace npugraph::runtime {

using program::kNone;

namespace {

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

void set_symbols(const Blueprint& blueprint, const std::vector<int32_t>& which, const SymbolKey& bits,
                 std::vector<Scalar>& symbols) {
  for (size_t i = 0; i < which.size(); ++i) {
    symbols[which[i]].kind = blueprint.program->symbols[which[i]].kind;
    symbols[which[i]].i = bits[i];  // copies the bits of a float, too
  }
}

// Hash of the key and, unless the option frozen_parameter is on, of the addresses of parameters.
size_t hash_of_graph(const Blueprint& blueprint, const CaptureRules& rules, const SymbolKey& key,
                     std::span<const BoundInput> inputs) {
  size_t seed = 0;
  for (const int64_t value : key) hash_combine(seed, static_cast<size_t>(value));
  for (size_t i = 0; i < inputs.size() && !rules.frozen_parameter; ++i) {
    const program::Input& input = blueprint.program->inputs[i];
    if (input.buffer == kNone || input.mutated) continue;
    if (blueprint.program->buffers[input.buffer].cls != program::BufferClass::kParameter) continue;
    hash_combine(seed, reinterpret_cast<size_t>(inputs[i].data));
  }
  return seed;
}

bool is_of_device(const program::Program& program) {
  return std::ranges::any_of(program.buffers, [](const program::Buffer& buffer) { return buffer.device != Device{}; });
}

// Number of Instances that are kept: at least as many as capture_limit allows in each of the concurrent calls.
size_t cache_size(const Options& options) {
  const int64_t at_once = std::max<int64_t>(options.max_concurrent, 1);
  const int64_t limit = std::min<int64_t>(options.rules.capture_limit.value_or(0), INT64_MAX / at_once);
  return static_cast<size_t>(std::max<int64_t>({options.max_instances, limit * at_once, 1}));
}

}  // namespace

SymbolKey key_of(const Blueprint& blueprint, std::span<const BoundInput> inputs) {
  return bits_of(blueprint, blueprint.key_symbols, inputs);
}

std::vector<Scalar> symbols_of(const Blueprint& blueprint, const SymbolKey& key) {
  std::vector<Scalar> symbols(blueprint.program->symbols.size());
  set_symbols(blueprint, blueprint.key_symbols, key, symbols);
  return symbols;
}

Executable::State::State(std::shared_ptr<const program::Program> source, Host& process, const MakeTask& make,
                         Options wanted, std::string label, Hooks given)
    : blueprint(std::move(source)),
      host(process),
      options(std::move(wanted)),
      hooks(std::move(given)),
      name(std::move(label)),
      tasks(*blueprint.program, make),
      constants(*blueprint.program),
      staging(staging_rule(blueprint, options.capture ? options.rules.clone_input : std::nullopt)),
      cache(cache_size(options)),
      captured(hooks.counts_by_name ? name : "", options.rules.capture_limit) {
  if (options.rules.use_graph_pool) pool = std::make_unique<SharedPool>(*options.rules.use_graph_pool, name);
}

Executable::State::~State() {
  follow_fork();
  host.trim();
}

void Executable::State::follow_fork() {
  if (generation == fork_generation()) return;
  generation = fork_generation();
  // Leaked: its destructor would wait for the threads that waited in the parent.
  static_cast<void>(lease_came_free.release());
  lease_came_free = std::make_unique<std::condition_variable>();
  std::erase_if(leases, [&](std::unique_ptr<Lease>& lease) {
    const bool lost = lease->busy && lease->generation != generation && lease->holder != thread_that_forked();
    if (lost) cache.abandon(*lease);
    return lost && lease.release() != nullptr;
  });
}

// A free lease, preferably one that has an Instance for the key; null if all are busy and no more are allowed.
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
  leases.push_back(std::make_unique<Lease>(name, next_lease++, *options.memory, constants));
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

void Executable::State::acquire(Call& call, const BoundInputs& inputs) {
  std::unique_lock lock(mutex);
  follow_fork();
  while ((call.lease = find_lease(call)) == nullptr) lease_came_free->wait(lock);
  decide(call, inputs);
  call.lease->busy = true;
  call.lease->holder = std::this_thread::get_id();
  call.lease->generation = generation;
  call.lease->error.clear();
  if (is_eager(call)) return;
  add(call.instance != nullptr ? &Counters::instance_hits : &Counters::instance_misses);
}

void Executable::State::decide(Call& call, const BoundInputs& inputs) {
  if (options.rules.force_recapture && call.instance != nullptr) {
    cache.drop(call.key, *call.lease);
    call.instance = nullptr;
    add(&Counters::recaptured_forced);
    captured.count_recapture("force_recapture");
  }
  if (call.instance != nullptr && call.instance->limits != inputs.stream.limits) [[unlikely]] {
    cache.drop(call.key, *call.lease);
    call.instance = nullptr;
    add(&Counters::recaptured_limits);
    captured.count_recapture("global_limit_core_change");
  }
  const bool keeps = (options.capture || inputs.in_captured_graph) && !captured.exhausted();
  if (call.instance == nullptr && keeps) {
    call.graph = hash_of_graph(blueprint, options.rules, call.key, inputs.all);
    if (!captured.has_room_for(call.graph)) drop_captures(call);
  }
  if (captured.exhausted()) call.instance = nullptr;
  call.mode = call.instance != nullptr         ? RunMode::kReplay
              : keeps && !captured.exhausted() ? RunMode::kCapture
                                               : RunMode::kEager;
}

void Executable::State::drop_captures(Call& call) {
  const int64_t limit = captured.count();
  captured.exhaust();
  const std::string key = key_text(blueprint, symbols_of(blueprint, call.key));
  call.warning =
      cat(name, " has ", limit, " captured graph", limit == 1 ? "" : "s", ", as many as capture_limit=", limit,
          " allows, and this call needs another one", key.empty() ? "" : cat(" (", key, ")"),
          ". All of them are dropped, and from now on it runs without, operator by operator, which is slower. "
          "Raise capture_limit, pad inputs to fewer sizes, or leave the option unset: then graphs are dropped "
          "one by one, the least recently used first");
  cache.drop_idle();
  for (const auto& lease : leases) {
    if (lease->busy) continue;
    lease->memory.release();
    call.gone.push_back(std::move(lease->results));
  }
  if (pool) pool->trim();
  host.trim();
}

// Called when the parameters of an existing Instance have moved: capture_limit counts it as another graph.
void Executable::State::note_parameters(Call& call, const BoundInputs& inputs) {
  std::lock_guard lock(mutex);
  const size_t hash = hash_of_graph(blueprint, options.rules, call.key, inputs.all);
  if (captured.exhausted()) return;
  if (captured.has_room_for(hash)) return captured.add(hash);
  drop_captures(call);
}

void Executable::State::note_evicted(Call& call) {
  add(&Counters::recaptured_evicted);
  if (counters.recaptured_evicted > 1) return;
  call.warning =
      cat(name, " captures ", key_text(blueprint, symbols_of(blueprint, call.key)),
          " again, which it had captured and dropped: it keeps the ", counted(options.max_instances, "capture"),
          " used last. Raise max_instances, or pad inputs to fewer sizes. ",
          "recaptures.evicted of artifact.counters counts such captures");
}

WorkingMemory& Executable::State::memory_of(Call& call) {
  if (pool) {
    call.pooled = pool->take();
    return *call.pooled;
  }
  return call.instance->memory ? *call.instance->memory : call.lease->memory;
}

KeptResults* Executable::State::results_of(Call& call) {
  if (options.rules.clone_output.value_or(true) || call.mode == RunMode::kEager) return nullptr;
  const bool shared = options.rules.reuse_graph_pool_in_same_fx.value_or(false) && !pool;
  std::unique_ptr<KeptResults>& results = shared ? call.lease->results : call.instance->results;
  if (results == nullptr) results = std::make_unique<KeptResults>(host);
  return results.get();
}

void Executable::State::capture(Call& call, const BoundInputs& inputs) {
  const bool keeps = call.mode == RunMode::kCapture;
  const Range range(host, keeps ? host.name_of(Host::Phase::kCapture) : nullptr);
  const int64_t begin = now_ns();
  std::vector<Scalar> symbols = symbols_of(blueprint, call.key);
  set_symbols(blueprint, blueprint.refreshed_symbols, bits_of(blueprint, blueprint.refreshed_symbols, inputs.all),
              symbols);
  const Specialise specialise = hooks.specialise ? hooks.specialise(symbols) : nullptr;
  auto made =
      std::make_unique<Instance>(blueprint, tasks.all(), host, *call.lease, std::move(symbols), staging, specialise);
  made->limits = inputs.stream.limits;
  if (keeps && !pool && !options.rules.reuse_graph_pool_in_same_fx.value_or(true)) {
    const std::string key = key_text(blueprint, made->sizes().symbols());
    made->memory = std::make_unique<WorkingMemory>(cat(name, "#", call.lease->index, " ", key), name, *options.memory);
  }
  const int64_t end = now_ns();
  call.instance = made.get();
  if (!keeps) {
    call.own = std::move(made);
    return;
  }
  std::lock_guard lock(mutex);
  if (!is_eager(call)) {
    add(&Counters::captures);
    add(&Counters::capture_ns, end - begin);
  }
  captured.add(call.graph);
  if (cache.was_evicted(call.key, *call.lease)) note_evicted(call);
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
  call.moved = call.instance->take_moved();
  if (call.moved.parameters) note_parameters(call, inputs);
  lease.kept = results_of(call);
  lease.working = &memory_of(call);
  call.instance->bind_memory(lease.working->arena, lease.working->scratch);
  return RunStatus::kOk;
}

RunStatus Executable::State::replay(Call& call, const BoundInputs& inputs, std::span<BoundOutput> outputs,
                                    std::vector<int64_t>& dims) {
  const bool timed = call.instance != nullptr && call.instance->replays > 0 && call.instance->replays < kTimedRuns;
  if (timed) [[unlikely]]
    call.begin_ns = now_ns();
  const auto error_mode = options.rules.capture_error_mode;
  const bool watched = call.mode == RunMode::kCapture && error_mode && is_of_device(*blueprint.program);
  const std::shared_ptr<void> watch = watched ? host.watch_capture(*error_mode) : nullptr;
  if (const RunStatus status = bind(call, inputs); status != RunStatus::kOk) return status;
  Lease& lease = *call.lease;
  Replay replay(blueprint, *call.instance, lease, host, inputs);
  {
    using enum Host::Phase;
    const Range first(host, call.mode == RunMode::kCapture ? host.name_of(kWarmUp) : nullptr);
    const Range range(host, host.name_of(is_eager(call) ? kEager : kReplay));
    std::optional<Observer> observer;
    if (timed || call.instance->has_red_zones() || range.is_on() || Observer::wanted()) [[unlikely]] {
      observer.emplace(blueprint, *call.instance, lease, name, call.mode, inputs.stream, timed ? &call.times : nullptr,
                       host, range.is_on());
    }
    const ReplayInProgress in_progress;
    replay.run(observer ? &*observer : nullptr);
  }
  call.rebound = replay.rebound();
  replay.hand_out(outputs, dims);
  return RunStatus::kOk;
}

void Executable::State::count(const Call& call) {
  add(is_eager(call) ? &Counters::eager_runs : &Counters::replays);
  if (!call.times.empty()) {
    call.instance->timed_runs->push_back({.run = {call.begin_ns, now_ns()}, .tasks = call.times});
    timed_runs = call.instance->timed_runs;
  }
  ++call.instance->replays;
  if (call.refreshed) add(&Counters::refreshes);
  if (call.rebound && call.mode == RunMode::kReplay) {
    add(&Counters::captures);
    add(&Counters::recaptured_new_symbols);
    ++call.instance->captures;
  }
  if (call.moved.written) {
    add(&Counters::recaptured_written);
    captured.count_recapture("mutated_input_change");
  }
  if (call.moved.parameters) add(&Counters::recaptured_parameters);
  scratch_bytes = std::max(scratch_bytes, call.instance->scratch_bytes());
  bound_bytes = call.instance->input_bytes();
  undeclared_copies = call.staged_bytes + call.lease->copied_bytes;
  latest_symbols = call.instance->sizes().symbols();
}

void Executable::State::finish(Call& call, bool completed) {
  // Freed without the lock.
  std::unique_ptr<Lease> surplus;
  std::vector<std::unique_ptr<Instance>> dropped;
  call.lease->kept = nullptr;
  call.lease->working = &call.lease->memory;
  if (call.pooled) pool->give_back(std::move(call.pooled));
  {
    std::lock_guard lock(mutex);
    if (completed) count(call);
    if (captured.exhausted()) cache.drop(*call.lease);
    dropped = cache.take_dropped();
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

void Executable::State::check_idle() const {
  NG_CHECK(std::ranges::none_of(leases, [](const auto& lease) { return lease->busy; }), "memory moves during a call");
}

uint64_t new_inputs_version() {
  static std::atomic<uint64_t> latest = 0;  // calls of different Executables overlap
  return latest.fetch_add(1, std::memory_order_relaxed) + 1;
}

Executable::Executable(std::shared_ptr<const program::Program> program, Host& host, const MakeTask& make,
                       Options options, std::string name, Hooks hooks)
    : state_(std::make_unique<State>(std::move(program), host, make, std::move(options), std::move(name),
                                     std::move(hooks))) {}

Executable::~Executable() = default;

RunResult Executable::run(const BoundInputs& inputs, std::span<BoundOutput> outputs, std::vector<int64_t>& dims) {
  State& state = *state_;
  NG_CHECK(inputs.all.size() == state.blueprint.program->inputs.size(), "got ", inputs.all.size(), " inputs");
  NG_CHECK(outputs.size() == state.blueprint.program->outputs.size(), "got room for ", outputs.size(), " outputs");
  const Range range(state.host, state.options.label.empty() ? nullptr : state.options.label.c_str());
  State::Call call{.key = key_of(state.blueprint, inputs.all), .staged_bytes = inputs.staged_bytes};
  state.acquire(call, inputs);
  RunResult result;
  try {
    result.status = state.replay(call, inputs, outputs, dims);
  } catch (const TaskError& error) {
    result = {RunStatus::kTaskFailed, error.what(), error.task};
  } catch (const InputError& error) {
    result = {RunStatus::kInputRefused, error.what()};
  } catch (const InternalError&) {
    state.finish(call, false);
    throw;
  } catch (const std::exception& error) {
    result = {RunStatus::kTaskFailed, error.what()};
  }
  if (result.status != RunStatus::kOk) std::ranges::fill(outputs, BoundOutput{});
  result.warning = std::move(call.warning);
  state.finish(call, result.status == RunStatus::kOk);
  return result;
}

int64_t Executable::prepare(const BoundInputs& inputs) {
  State& state = *state_;
  State::Call call{.key = key_of(state.blueprint, inputs.all)};
  state.acquire(call, inputs);
  int64_t bytes = 0;
  try {
    if (call.instance == nullptr) state.capture(call, inputs);
    bytes = call.instance->block_bytes();
  } catch (...) {
    state.finish(call, false);
    throw;
  }
  state.finish(call, false);
  return bytes;
}

}  // namespace npugraph::runtime
