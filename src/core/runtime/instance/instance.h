// SPDX-License-Identifier: Apache-2.0
// A Program bound to symbol values and addresses. Making one is "capture", running one "replay" (runtime/replay.h).
//
// Not thread-safe: an Instance belongs to one lease, and a lease to one call at a time.
//
// Everything that a task reads is in a few blocks that are made once: sizes, strides and offsets in one block of
// integers, one ng_buffer per window, scalars, calls. If a buffer moves, only the pointers of its windows are patched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/call.h"
#include "runtime/instance/blueprint.h"
#include "runtime/instance/lease.h"
#include "runtime/instance/sizes.h"
#include "runtime/memory/arena.h"
#include "runtime/memory/call_memory.h"
#include "runtime/memory/input_staging.h"
#include "runtime/memory/overlap.h"
#include "runtime/observation.h"
#include "runtime/task_makers.h"

namespace npugraph::runtime {

// One task, ready to run.
struct Step {
  ng_status (*run)(void* context, void* state, ng_call* call) = nullptr;
  void* context = nullptr;
  void* state = nullptr;
  ng_call* call = nullptr;
  bool prepares = false;  // memory must be allocated, or windows cleared, before the task
  bool finishes = false;  // memory is adopted or released after it
  bool hosts = false;     // a task of the host, which may use the threads of its team itself
};

// The inputs whose address changed since the previous call.
struct MovedInputs {
  bool written = false;
  bool parameters = false;
};

class Instance {
 public:
  // Evaluates, places and binds everything that follows from the inputs' symbols. TaskError if a task refuses the
  // sizes, UserError from Sizes. `tasks`, `blueprint`, `host` and `lease` must outlive the Instance. `specialise` may
  // be empty; it is not called for tasks that depend on symbols of other tasks.
  Instance(const Blueprint& blueprint, std::span<const ng_task> tasks, Host& host, Lease& lease,
           std::vector<Scalar> symbols, const StagingRule& staging, const Specialise& specialise = {});
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  // Sets Blueprint::refreshed_symbols to `bits` and binds again the tasks that use them. False if none was bound.
  bool refresh(std::span<const int64_t> bits);
  // Points the windows of every input that moved to its new address. kOk, kInputsOverlap or kInputElsewhere. InputError
  // when an input has other sizes or strides than symbols give it, or when its memory ends too early; TaskError when an
  // input that has elements has no memory.
  RunStatus bind_inputs(const BoundInputs& inputs);
  // The moves since the last call of this function.
  MovedInputs take_moved() { return std::exchange(moved_inputs_, {}); }
  // Called before every run: copies the inputs that tasks do not read in the caller's memory. Returns the bytes copied.
  int64_t stage_inputs();
  // Points buffers and workspaces into these blocks, after growing them as needed, and constants to where they are now.
  void bind_memory(Arena& arena, Arena& scratch);
  // Called when the segment before `epoch` has run: takes the symbols that it defined and, if they differ from the last
  // time, binds everything that depends on them again. True if something was bound.
  bool enter_epoch(size_t epoch, Arena& scratch);
  // Points all windows of a buffer at its memory.
  void place_buffer(int32_t buffer, void* base, void* object);

  std::span<const Step> steps() const { return steps_; }
  ng_buffer& window(int32_t w) { return buffers_[w]; }
  void* base(int32_t buffer) const { return bases_[buffer]; }
  // The object behind a buffer. For output and heap buffers it holds one reference from the task that makes it until it
  // is released or handed out, and is null at other times.
  void*& object(int32_t buffer) { return objects_[buffer]; }
  const Sizes& sizes() const { return sizes_; }
  int64_t arena_bytes() const { return arena_bytes_; }
  // Bytes that a block for the arena needs: arena_bytes(), and the red zones.
  int64_t block_bytes() const { return has_red_zones() ? zoned_bytes_ : arena_bytes_; }
  int64_t lower_bound_bytes() const { return lower_bound_bytes_; }
  int64_t live_bytes() const { return live_bytes_; }
  int64_t scratch_bytes() const { return scratch_bytes_; }
  int64_t workspace_bytes(int32_t task) const { return workspace_[task]; }
  // Whether there are red zones around its memory. The sizes that the Instance returns do not include them.
  bool has_red_zones() const { return red_zone_ > 0; }
  int64_t input_bytes() const { return input_bytes_; }
  // Sets the offsets of the buffers in `lives` that lie in the arena, and appends the workspaces in the arena.
  void add_places(std::vector<BufferLife>& lives) const;

  int64_t captures = 0;
  int64_t replays = 0;
  std::shared_ptr<std::vector<TimedRun>> timed_runs = std::make_shared<std::vector<TimedRun>>();  // in run order
  uint64_t regions = 0;                   // number of parallel regions in the last replay
  CoreLimits limits;                      // of the stream on which it was captured
  std::unique_ptr<WorkingMemory> memory;  // of its own; null: it uses that of its lease or of a pool
  std::unique_ptr<KeptResults> results;   // of its own; null: those of its lease, or results are not kept

 private:
  struct TensorInput {
    int32_t input = 0;
    int32_t buffer = 0;
    int64_t bytes = 0;  // from the first element to the end of the last
    // The range that tasks may touch: bytes before the first element, and bytes from the first element on.
    int64_t before = 0;
    int64_t reach = 0;
    // Bytes of its storage before the first element, if the Program addresses the storage, which `named` says.
    int64_t offset = 0;
    bool named = false;
  };
  struct Place {
    int32_t input = 0;
    int64_t storage_offset = 0;
  };
  // A symbolic size of an input, or a stride that counts. One symbol may give several, but reads only one of them.
  struct GivenDim {
    int32_t input = 0;
    int32_t dim = 0;
    bool is_stride = false;
    int64_t value = 0;
  };
  struct Address {
    const void* data = nullptr;
    const void* object = nullptr;
    int64_t capacity = 0;
  };
  // An input that tasks do not read in the caller's memory.
  struct Staged {
    int32_t input = 0;  // index into inputs_
    int64_t item_bytes = 0;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    // For clone_input=False: the address of the tensor of the first call, and the object that keeps its memory alive.
    const void* first = nullptr;
    void* held = nullptr;
    std::span<std::byte> memory;  // of `held`, as it was when it was taken
  };

  void plan_staging(const StagingRule& rule);
  void follow_first(std::span<const BoundInput> inputs);
  bool is_first_there(const Staged& staged) const;
  bool is_first_in_use(const Staged& staged) const;
  void drop_first(Staged& staged);
  void note_move(const TensorInput& tensor);

  void make_blocks(const Lease& lease);
  void measure_inputs();
  void note_given_dims(int32_t i, std::span<const int64_t> sizes, std::span<const int64_t> strides);
  void check_dims(std::span<const BoundInput> inputs) const;
  [[noreturn]] void refuse_dims(const GivenDim& dim, const BoundInput& input) const;
  void measure_windows_of_inputs();
  void measure_window(int32_t w);
  void check_late_window(int32_t w) const;
  void check_memory(const TensorInput& tensor, const BoundInput& input) const;
  bool is_elsewhere(std::span<const BoundInput> inputs) const;
  void place_constants();
  void plan_arena(std::optional<program::ArenaSolver>& solver);
  void plan_arena_of_strands(std::span<const int32_t> buffers, std::span<const int64_t> bytes);
  void plan_red_zones(std::span<const int64_t> bytes);
  void bind_epoch(size_t epoch);
  void bind_task(int32_t t);
  void specialise_tasks(const Specialise& specialise);
  std::span<const ng_scalar> evaluate_scalars(int32_t t);
  void unbind_tasks();
  void reserve(Arena& arena) const;
  void place_scratch(Arena& scratch);
  int64_t place_in_scratch(std::byte* scratch);
  void point(int32_t w);
  RunStatus bind_moved(std::span<const BoundInput> inputs);
  std::span<const int32_t> find_moved(std::span<const BoundInput> inputs);

  const Blueprint& blueprint_;
  std::vector<ng_task> tasks_;
  std::vector<int32_t> own_tasks_;  // indices of the tasks in tasks_ that belong to the Instance
  Host& host_;
  Sizes sizes_;

  std::vector<ng_buffer> buffers_;  // one per window
  std::vector<ng_scalar> scalars_;
  std::vector<ng_scalar> defined_;
  std::vector<ng_call> calls_;
  std::vector<Step> steps_;
  std::vector<int64_t> bound_at_;  // per task: the evaluation of sizes_ that it was bound to
  size_t epochs_bound_ = 0;
  bool refresh_failed_ = false;  // during refresh(), and after one that failed

  std::vector<void*> bases_;                                // per buffer: its first byte
  std::vector<void*> objects_;                              // per buffer
  std::vector<std::pair<int32_t, int64_t>> arena_offsets_;  // (buffer, offset)
  int64_t arena_bytes_ = 0;
  int64_t lower_bound_bytes_ = 0;
  int64_t live_bytes_ = 0;  // the most bytes of buffers alive at once
  uint64_t arena_generation_ = 0;
  const ConstantMemory& constants_;
  uint64_t constants_generation_ = 0;

  // With red zones: their bytes on each side, the offsets of arena_offsets_ and then of workspace_offsets_ in an arena
  // of zoned_bytes_, and copies of the constants.
  int64_t red_zone_ = 0;
  std::vector<int64_t> zoned_offsets_;
  int64_t zoned_bytes_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> zoned_constants_;

  std::vector<int64_t> workspace_;  // bytes per task
  // Workspaces of the tasks that are bound before the first one runs lie in the arena, as buffers that live for one
  // task: (task, offset). Those of later epochs share the scratch of the lease.
  std::vector<std::pair<int32_t, int64_t>> workspace_offsets_;
  int64_t scratch_bytes_ = 0;  // bytes of that scratch: the largest of them, or with strands their sum
  uint64_t scratch_generation_ = 0;

  std::vector<TensorInput> inputs_;
  std::vector<int32_t> input_of_buffer_;  // index into inputs_, or kNone
  std::vector<GivenDim> given_dims_;
  std::vector<Place> places_;    // inputs that must lie at a certain place in their storage
  std::vector<Address> bound_;   // where each of inputs_ is bound; separate because every call reads all of it
  std::vector<int32_t> moved_;   // room for the indices into inputs_, and one more
  bool inputs_checked_ = false;  // the bound inputs have passed every check
  uint64_t inputs_version_ = 0;  // BoundInputs::version of the bound inputs
  int64_t input_bytes_ = 0;
  MovedInputs moved_inputs_;
  std::vector<Staged> staged_;
  std::vector<int32_t> staged_of_;  // index into staged_ of each of inputs_, or kNone
  bool over_first_ = false;
  OverlapCheck overlap_;
};

}  // namespace npugraph::runtime
