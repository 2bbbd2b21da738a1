// SPDX-License-Identifier: Apache-2.0
#include "runtime/replay.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/trace.h"
#include "runtime/task_error.h"
#include "runtime/threads/strands.h"
#include "runtime/threads/worker_pool.h"
#include "runtime/watch/ledger.h"
#include "runtime/watch/observer.h"
#include "tensor/shape.h"

namespace npugraph::runtime {

using program::BufferClass;
using program::Output;

namespace {

// Appends `dims` to `kept`, which has room for them.
std::span<const int64_t> keep(std::span<const int64_t> dims, std::vector<int64_t>& kept) {
  const size_t first = kept.size();
  kept.insert(kept.end(), dims.begin(), dims.end());
  return std::span<const int64_t>(kept).subspan(first);
}

}  // namespace

Replay::~Replay() {
  host_.expect(&blueprint_, allocated_bytes_);
  for (const int32_t b : blueprint_.owned_buffers) {
    void*& object = instance_.object(b);
    if (object != nullptr) host_.release(object);
    object = nullptr;
  }
}

void Replay::run(Observer* observer) {
  const program::Program& program = *blueprint_.program;
  stage_inputs(observer);
  const uint64_t regions_before = WorkerPool::instance().regions();
  int32_t begin = 0;
  for (size_t s = 0; s < program.segments.size(); ++s) {
    const int32_t end = program.segments[s];
    run_segment(begin, end, observer);
    if (!blueprint_.epochs[s + 1].symbols.empty()) rebound_ |= instance_.enter_epoch(s + 1, lease_.working->scratch);
    begin = end;
  }
  instance_.regions = WorkerPool::instance().regions() - regions_before;
}

void Replay::stage_inputs(Observer* observer) {
  const int64_t begin = observer == nullptr ? 0 : now_ns();
  const int64_t bytes = instance_.stage_inputs();
  lease_.copied_bytes += bytes;
  if (bytes > 0 && observer != nullptr) observer->staged(begin);
}

// Gathering the team pays off from the second parallel region on. Tasks of the host do not run while it stands by.
void Replay::run_segment(int32_t begin, int32_t end, Observer* observer) {
  if (blueprint_.has_strands() || has_limits()) return run_strands(begin, end, observer);
  if (instance_.regions < 2 || (observer != nullptr && observer->calls_back())) return run_tasks(begin, end, observer);
  const std::span<const Step> steps = instance_.steps();
  while (begin < end) {
    int32_t stop = begin + 1;
    while (stop < end && steps[stop].hosts == steps[begin].hosts) ++stop;
    if (steps[begin].hosts || stop == begin + 1) {
      run_tasks(begin, stop, observer);
    } else {
      WorkerPool::instance().with_team([&] { run_tasks(begin, stop, observer); });
    }
    begin = stop;
  }
}

// Whether limits of the calling stream restrict tasks to fewer workers than there are.
bool Replay::has_limits() const {
  const CoreLimits& limits = instance_.limits;
  const int32_t workers = WorkerPool::instance().size();
  return (limits.cube > 0 && limits.cube < workers) || (limits.vector > 0 && limits.vector < workers);
}

// The host keeps the exception of a task for the thread that ran it; this hands it to the calling thread.
void Replay::run_strands(int32_t begin, int32_t end, Observer* observer) {
  // Before any strand runs, so that none has to wait for another one's memory.
  for (int32_t t = begin; t < end && blueprint_.has_strands(); ++t) allocate_for(t);
  // An observer that runs between tasks must see them in the order of the program.
  if (observer != nullptr && observer->wants_order()) return run_tasks(begin, end, observer);
  std::mutex mutex;
  std::map<int32_t, std::exception_ptr> thrown;
  const auto enter = host_.thread_state();
  const auto run_task = [&](int32_t task, Strands::Thread& thread) {
    if (enter && !thread.state) thread.state = enter();
    if (observer != nullptr && !thread.observer) thread.observer.emplace(*observer);
    try {
      run_tasks(task, task + 1, observer == nullptr ? nullptr : &*thread.observer);
    } catch (...) {
      const std::lock_guard lock(mutex);
      thrown.emplace(task, host_.take_exception());
      throw;
    }
  };
  try {
    Strands(blueprint_, lease_, instance_.limits, begin, end, run_task).run();
  } catch (...) {
    if (!thrown.empty()) host_.keep_exception(thrown.begin()->second);
    throw;
  }
}

void Replay::run_tasks(int32_t begin, int32_t end, Observer* observer) {
  if (observer == nullptr) {
    run_tasks<false>(begin, end, nullptr);
  } else {
    run_tasks<true>(begin, end, observer);
  }
}

template <bool kObserved>
void Replay::run_tasks(int32_t begin, int32_t end, Observer* observer) {
  const Step* steps = instance_.steps().data();
  for (int32_t t = begin; t < end; ++t) {
    const Step& step = steps[t];
    if (step.prepares) prepare(t);
    if constexpr (kObserved) observer->before(t);
    if (step.run(step.context, step.state, step.call) != NG_OK) [[unlikely]] {
      if constexpr (kObserved) observer->after_failure(t);
      fail(t);
    }
    if constexpr (kObserved) observer->after(t);
    if (step.finishes) finish(t);
  }
}

void Replay::fail(int32_t task) const {
  {
    const std::lock_guard lock(lease_.error_mutex);
    if (!lease_.error.empty()) throw TaskError(lease_.error, task);
  }
  throw TaskError(cat("task ", task, " (", blueprint_.program->tasks[task].name, ") failed"), task);
}

void Replay::prepare(int32_t task) {
  if (!blueprint_.has_strands()) allocate_for(task);
  for (const int32_t w : blueprint_.adopted_by_task[task]) {
    instance_.window(w).data = nullptr;
    instance_.window(w).object = nullptr;
  }
}

// An error of the host's allocator becomes one of the task.
void Replay::allocate_for(int32_t task) {
  try {
    for (const int32_t b : blueprint_.allocated_by_task[task]) allocate(b);
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& error) {
    host_.keep_exception(std::current_exception());
    throw TaskError(error.what(), task);
  }
}

// Memory of the caller in which a result of this buffer begins, if all of the buffer fits.
const ResultMemory* Replay::given_memory(int32_t buffer) const {
  for (size_t i = 0; i < inputs_.results.size(); ++i) {
    const int32_t w = blueprint_.outputs[i].window;
    if (inputs_.results[i].object == nullptr || w == program::kNone) continue;
    if (blueprint_.windows[w].operand->buffer != buffer || instance_.sizes().offset(w) != 0) continue;
    if (inputs_.results[i].bytes >= instance_.sizes().bytes(buffer)) return &inputs_.results[i];
  }
  return nullptr;
}

void Replay::allocate(int32_t buffer) {
  if (const ResultMemory* given = given_memory(buffer)) {
    host_.retain(given->object);
    return instance_.place_buffer(buffer, given->data, given->object);
  }
  const bool stays = lease_.kept != nullptr && blueprint_.program->buffers[buffer].cls == BufferClass::kOutput;
  const int64_t bytes = instance_.sizes().bytes(buffer);
  void* data = nullptr;
  void* object = stays ? lease_.kept->take(buffer, bytes, &data) : allocate(bytes, &data);
  instance_.place_buffer(buffer, data, object);
}

void* Replay::allocate(int64_t bytes, void** data) {
  void* object = host_.allocate(bytes, data);
  poison_memory(*data, bytes);
  allocated_bytes_ += bytes;
  return object;
}

void Replay::finish(int32_t task) {
  for (const int32_t w : blueprint_.adopted_by_task[task]) adopt(task, w);
  for (const int32_t b : blueprint_.program->tasks[task].releases) {
    void*& object = instance_.object(b);
    host_.release(object);
    object = nullptr;
  }
  if (inputs_.done_with == nullptr) return;
  for (const int32_t input : blueprint_.inputs_done_after_task[task]) inputs_.done_with(inputs_.caller, input);
}

void Replay::adopt(int32_t task, int32_t window) {
  const ng_buffer made = instance_.window(window);
  if (made.object == nullptr) {
    throw TaskError(cat("task ", task, " (", blueprint_.program->tasks[task].name, ") stored no object for a result"),
                    task);
  }
  void* base = made.data;
  if (base != nullptr) base = static_cast<std::byte*>(base) - instance_.sizes().offset(window);
  instance_.place_buffer(blueprint_.windows[window].operand->buffer, base, made.object);
}

// Bytes of a buffer, from its first one, that results cover.
int64_t Replay::result_bytes(int32_t buffer) const {
  int64_t bytes = 0;
  for (const OutputPlan& plan : blueprint_.outputs) {
    if (plan.window == program::kNone) continue;
    const program::Operand& operand = *blueprint_.windows[plan.window].operand;
    if (operand.buffer != buffer) continue;
    const Sizes& sizes = instance_.sizes();
    const int64_t extent = extent_bytes(sizes.sizes(plan.window), sizes.strides(plan.window), operand.dtype);
    if (extent > 0) bytes = std::max(bytes, sizes.offset(plan.window) + extent);
  }
  return bytes;
}

// Copies results that tasks have allocated themselves to the addresses that they had in the previous call.
void Replay::keep_allocated() {
  for (const int32_t b : blueprint_.owned_buffers) {
    const program::Buffer& buffer = blueprint_.program->buffers[b];
    if (buffer.cls != BufferClass::kHeap || buffer.opaque || instance_.object(b) == nullptr) continue;
    const int64_t bytes = result_bytes(b);
    if (bytes == 0 || instance_.base(b) == nullptr) continue;
    void* data = nullptr;
    void* object = lease_.kept->take(b, bytes, &data);
    std::memcpy(data, instance_.base(b), bytes);
    lease_.copied_bytes += bytes;
    host_.release(instance_.object(b));
    instance_.place_buffer(b, data, object);
  }
}

void Replay::hand_out(std::span<BoundOutput> outputs, std::vector<int64_t>& dims) {
  const program::Program& program = *blueprint_.program;
  dims.clear();
  dims.reserve(blueprint_.output_dims);  // so that it does not move below
  try {
    if (lease_.kept != nullptr) keep_allocated();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Output& output = program.outputs[i];
      outputs[i] = {.kind = output.kind, .whole = output.kind == Output::Kind::kInput};
      if (output.kind == Output::Kind::kTensor) hand_out_tensor(blueprint_.outputs[i], outputs[i], dims);
      if (output.kind == Output::Kind::kScalar) {
        const Scalar value = instance_.sizes().value(output.scalar);
        outputs[i].scalar_kind = output.scalar_kind;
        outputs[i].scalar = value.kind == ScalarKind::kFloat ? ng_scalar{.f = value.f} : ng_scalar{.i = value.i};
      }
    }
  } catch (...) {
    for (BoundOutput& output : outputs) {
      if (output.object != nullptr) host_.release(output.object);
      output.object = nullptr;
    }
    throw;
  }
}

void Replay::hand_out_tensor(const OutputPlan& plan, BoundOutput& result, std::vector<int64_t>& dims) {
  const int32_t b = blueprint_.windows[plan.window].operand->buffer;
  const program::Buffer& buffer = blueprint_.program->buffers[b];
  result.dtype = blueprint_.windows[plan.window].operand->dtype;
  result.byte_offset = instance_.sizes().offset(plan.window);
  result.sizes = keep(instance_.sizes().sizes(plan.window), dims);
  result.strides = keep(instance_.sizes().strides(plan.window), dims);
  result.whole = plan.whole;
  switch (buffer.cls) {
    case BufferClass::kInput:
    case BufferClass::kParameter: result.data = instance_.window(plan.window).data; return;
    case BufferClass::kConstant:
    case BufferClass::kArena: hand_out_copy(plan, result); return;
    case BufferClass::kOutput:
    case BufferClass::kHeap: break;
  }
  if (instance_.object(b) == nullptr) allocate(b);  // no task touches it: it has no elements
  result.data = instance_.window(plan.window).data;
  result.object = instance_.object(b);
  if (plan.last_of_buffer) {
    instance_.object(b) = nullptr;
  } else {
    host_.retain(result.object);
  }
}

// The caller may write what it gets, so constants are never given away.
void Replay::hand_out_copy(const OutputPlan& plan, BoundOutput& result) {
  const int32_t b = blueprint_.windows[plan.window].operand->buffer;
  if (blueprint_.program->buffers[b].opaque) {
    result.object = instance_.object(b);
    host_.retain(result.object);
    return;
  }
  void* data = nullptr;
  result.object = allocate(instance_.sizes().bytes(b), &data);
  if (instance_.base(b) != nullptr) std::memcpy(data, instance_.base(b), instance_.sizes().bytes(b));
  lease_.copied_bytes += instance_.sizes().bytes(b);
  result.data = static_cast<std::byte*>(data) + result.byte_offset;
}

}  // namespace npugraph::runtime
