// SPDX-License-Identifier: Apache-2.0
// A Program bound to symbol values and addresses. Making one is "capture", running one "replay" (runtime/replay.h).
//
// Not thread-safe: an Instance belongs to one lease, and a lease to one call at a time.
//
// Everything that a task reads stands in a few blocks made once: sizes, strides and offsets in one block of integers, one
// ng_buffer per window, scalars, calls. A buffer that moves patches the pointers of its windows and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/executable.h"
#include "runtime/instance/blueprint.h"
#include "runtime/instance/lease.h"
#include "runtime/instance/sizes.h"
#include "runtime/memory/arena.h"
#include "runtime/memory/input_staging.h"
#include "runtime/memory/kept_results.h"
#include "runtime/memory/overlap.h"
#include "runtime/memory/working_memory.h"

namespace npugraph::runtime {

// One task, ready to run.
struct Step {
  ng_status (*run)(void* context, void* state, ng_call* call) = nullptr;
  void* context = nullptr;
  void* state = nullptr;
  ng_call* call = nullptr;
  bool prepares = false;  // memory is to be allocated or cleared before the task
  bool finishes = false;  // memory is to be adopted or released after it
  bool hosts = false;     // runs what is the host's, which may use the threads of its team itself
};

// What has moved since the call before.
struct MovedInputs {
  bool written = false;
  bool parameters = false;
};

class Instance {
 public:
  // Evaluates, places and binds all that follows from the inputs' symbols. TaskError when a task refuses the sizes, UserError
  // from Sizes. `tasks`, `blueprint`, `host` and `lease` outlive the Instance. `specialise` may be empty; tasks whose scalars
  // other tasks define are not asked for.
  Instance(const Blueprint& blueprint, std::span<const ng_task> tasks, Host& host, Lease& lease,
           std::vector<Scalar> symbols, const StagingRule& staging, const Specialise& specialise = {});
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  // Binds anew what is told Blueprint::refreshed_symbols, whose bits these are. False when they are what they were.
  bool refresh(std::span<const int64_t> bits);
  // Points the windows of every input that moved to its new address. kOk, kInputsOverlap or kInputElsewhere. InputError when
  // the memory of an input ends too early, TaskError when an input that has elements has no memory.
  RunStatus bind_inputs(const BoundInputs& inputs);
  // Since it was last asked.
  MovedInputs take_moved() { return std::exchange(moved_inputs_, {}); }
  // Before every run: copies the inputs that tasks read elsewhere. How many bytes.
  int64_t stage_inputs();
  // Follows the blocks of the lease, after growing them as needed.
  void bind_memory(Arena& arena, Arena& scratch);
  // The segment before `stage` has run: takes the symbols that it defined, and where they differ from the last time binds
  // anew what depends on them. True when something was bound.
  bool enter_stage(size_t stage, Arena& scratch);
  // Points all windows of a buffer at its memory.
  void place_buffer(int32_t buffer, void* base, void* object);

  std::span<const Step> steps() const { return steps_; }
  ng_buffer& window(int32_t w) { return buffers_[w]; }
  void* base(int32_t buffer) const { return bases_[buffer]; }
  // The object behind a buffer. Of outputs and heap buffers it holds one reference, from the task that makes it until it is
  // released or handed out; null outside.
  void*& object(int32_t buffer) { return objects_[buffer]; }
  const Sizes& sizes() const { return sizes_; }
  int64_t arena_bytes() const { return arena_bytes_; }
  int64_t lower_bound_bytes() const { return lower_bound_bytes_; }
  int64_t live_bytes() const { return live_bytes_; }
  int64_t scratch_bytes() const { return scratch_bytes_; }
  int64_t workspace_bytes(int32_t task) const { return workspace_[task]; }
  // Whether there is room for red zones around its memory. What it says of its memory is without them.
  bool has_red_zones() const { return red_zone_ > 0; }
  int64_t input_bytes() const { return input_bytes_; }
  // Of buffers in the arena, where they lie, and the workspaces there.
  void add_places(std::vector<BufferLife>& lives) const;

  int64_t captures = 0;
  int64_t replays = 0;
  std::shared_ptr<std::vector<TimedRun>> timed_runs = std::make_shared<std::vector<TimedRun>>();  // in order
  uint64_t regions = 0;                   // parallel ones, in the last replay
  CoreLimits limits;                      // of the stream on which it was captured
  std::unique_ptr<WorkingMemory> memory;  // of its own; null: that of its lease, or of a pool
  std::unique_ptr<KeptResults> results;   // where they stay; null: that of its lease, or nowhere

 private:
  struct TensorInput {
    int32_t input = 0;
    int32_t buffer = 0;
    int64_t bytes = 0;  // from the first element to the end of the last
    // What tasks may touch: bytes before the first element, and behind it.
    int64_t before = 0;
    int64_t reach = 0;
    // Bytes of its storage before the first element, where the program names places of the storage.
    int64_t offset = 0;
    bool named = false;
  };
  struct Place {
    int32_t input = 0;
    int64_t storage_offset = 0;
  };
  struct Address {
    const void* data = nullptr;
    const void* object = nullptr;
    int64_t capacity = 0;
  };
  // An input that tasks read elsewhere.
  struct Staged {
    int32_t input = 0;  // index into inputs_
    int64_t item_bytes = 0;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    // Of clone_input=False: where the tensor of the first call is, and what keeps its memory.
    const void* first = nullptr;
    void* held = nullptr;
    std::span<std::byte> memory;  // of `held`, as it was
  };

  void plan_staging(const StagingRule& rule);
  void follow_first(std::span<const BoundInput> inputs);
  bool is_first_there(const Staged& staged) const;
  bool is_first_in_use(const Staged& staged) const;
  void drop_first(Staged& staged);
  void note_move(const TensorInput& tensor);

  void make_blocks(const Lease& lease);
  void measure_inputs();
  void measure_windows_of_inputs();
  void measure_window(int32_t w);
  void check_late_window(int32_t w) const;
  void check_memory(const TensorInput& tensor, const BoundInput& input) const;
  bool is_elsewhere(std::span<const BoundInput> inputs) const;
  void place_constants(Host& host);
  void plan_arena(std::optional<program::ArenaSolver>& solver);
  void plan_arena_of_lanes(std::span<const int32_t> buffers, std::span<const int64_t> bytes);
  void plan_red_zones(std::span<const int64_t> bytes);
  void bind_stage(size_t stage);
  void bind_task(int32_t t);
  void specialise_tasks(const Specialise& specialise);
  std::span<const ng_scalar> evaluate_scalars(int32_t t);
  void unbind_tasks();
  void place_scratch(Arena& scratch);
  int64_t place_in_scratch(std::byte* scratch);
  void point(int32_t w);
  RunStatus bind_moved(std::span<const BoundInput> inputs);
  std::span<const int32_t> find_moved(std::span<const BoundInput> inputs);

  const Blueprint& blueprint_;
  std::vector<ng_task> tasks_;
  std::vector<int32_t> own_tasks_;  // those of tasks_ that belong to the Instance
  Host& host_;
  Sizes sizes_;

  std::vector<ng_buffer> buffers_;  // one per window
  std::vector<ng_scalar> scalars_;
  std::vector<ng_scalar> defined_;
  std::vector<ng_call> calls_;
  std::vector<Step> steps_;
  std::vector<int64_t> bound_at_;  // per task: the evaluation of sizes_ that it was bound to
  size_t stages_bound_ = 0;
  bool refresh_failed_ = false;  // tasks are not bound to what they are told now

  std::vector<void*> bases_;                                // per buffer: its first byte
  std::vector<void*> objects_;                              // per buffer
  std::vector<std::pair<int32_t, int64_t>> arena_offsets_;  // (buffer, offset)
  int64_t arena_bytes_ = 0;
  int64_t lower_bound_bytes_ = 0;
  int64_t live_bytes_ = 0;  // the most that buffers have at once
  uint64_t arena_generation_ = 0;

  // With red zones around memory: bytes on each side, offsets of arena_offsets_ and then workspace_offsets_ in a block of so many
  // bytes, and copies of constants.
  int64_t red_zone_ = 0;
  std::vector<int64_t> zoned_offsets_;
  int64_t zoned_bytes_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> zoned_constants_;

  std::vector<int64_t> workspace_;  // bytes per task
  // Workspaces of the tasks that are bound before the first one runs lie in the arena, as buffers that live for one task:
  // (task, offset). Those of later stages share the scratch of the lease.
  std::vector<std::pair<int32_t, int64_t>> workspace_offsets_;
  int64_t scratch_bytes_ = 0;  // the largest of them
  uint64_t scratch_generation_ = 0;

  std::vector<TensorInput> inputs_;
  std::vector<int32_t> input_of_buffer_;  // index into inputs_, or kNone
  std::vector<Place> places_;             // inputs that must lie at a certain place in their storage
  std::vector<Address> bound_;   // where each of inputs_ is bound now; apart, because every call looks at all of it
  std::vector<int32_t> moved_;   // room for the indices into inputs_, and one more
  bool inputs_checked_ = false;  // what is bound has passed every check
  uint64_t inputs_version_ = 0;  // of what is bound
  int64_t input_bytes_ = 0;
  MovedInputs moved_inputs_;
  std::vector<Staged> staged_;
  std::vector<int32_t> staged_of_;  // index into staged_ of each of inputs_, or kNone
  bool over_first_ = false;
  OverlapCheck overlap_;
};

}  // namespace npugraph::runtime
