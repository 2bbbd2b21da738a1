// SPDX-License-Identifier: Apache-2.0
// The Program: immutable result of a compile, independent of sizes. A list of tasks over buffers, to be bound to symbol
// values and addresses by the runtime.
//
// Rules, checked by verify():
// - Tasks are in program order. Operands declare what a task reads and writes; order and safety derive from them.
// - Tasks of one stream run in program order; tasks of different streams may run at the same time, unless Task::waits
//   orders them. Two buffers share memory only if all tasks of one come before all tasks of the other.
// - Views are not tasks: an operand is a strided window into a buffer.
// - Symbols come from inputs, or are defined by a task. A segment ends after a task that defines a symbol. All symbols
//   that a task uses are known before it runs; only heap buffers that it allocates itself may have sizes that it
//   defines.
// - A buffer whose size depends on a task-defined symbol is never in the arena.
// - Constants are never written. Outputs are never windows into the arena. Placed memory is written before it is read.
// - A buffer's life covers every task that touches it; a heap buffer is released exactly once, after its last use,
//   unless it is returned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "tensor/attr.h"
#include "tensor/core_limits.h"
#include "tensor/lexer.h"

namespace npugraph::program {

// The kinds of tasks. A kind is one row of kTaskKinds, and a maker in the processes that run its tasks
// (runtime/task_makers.h).

enum class TaskKind : uint8_t {
  kKernel,
  kAten,
  kPython,
  kCollective,
  kLoop,
  kMatmul,
  kAttention,
  kConvolution,
  kSuperKernel,  // several generated tasks and kernels, see parts.h
  kNested,       // runs other Programs of the host; which ones, and how often, depends on values of the run
  kGroup,        // several generated tasks that do not depend on each other, see parts.h
};

enum class KindTrait : uint8_t {
  // Its first argument is the text from which each machine generates the code; the others are its scalars. A super
  // kernel or a group has the arguments of its parts instead.
  kGenerated = 1 << 0,
  kOfHost = 1 << 1,    // runs on the host's objects
  kCallable = 1 << 2,  // Task::callable says what the host runs
  // An Instance may bind such a task again when its scalars change: nothing that was planned depends on them.
  kRebindable = 1 << 3,
  kProduct = 1 << 4,  // counts against CoreLimits::cube
};

constexpr uint8_t operator|(KindTrait a, KindTrait b) { return static_cast<uint8_t>(a) | static_cast<uint8_t>(b); }
constexpr uint8_t operator|(uint8_t a, KindTrait b) { return a | static_cast<uint8_t>(b); }

struct TaskKindRow {
  std::string_view name;  // in texts and reports
  uint8_t traits = 0;     // of KindTrait
};

// In the order of TaskKind.
inline constexpr auto kTaskKinds = std::to_array<TaskKindRow>({
    {"kernel"},
    {"aten", KindTrait::kOfHost | KindTrait::kRebindable},
    {"python", KindTrait::kOfHost | KindTrait::kRebindable | KindTrait::kCallable},
    {"collective", static_cast<uint8_t>(KindTrait::kOfHost)},
    {"loop", static_cast<uint8_t>(KindTrait::kGenerated)},
    {"matmul", KindTrait::kGenerated | KindTrait::kProduct},
    {"attention", KindTrait::kGenerated | KindTrait::kProduct},
    {"convolution", KindTrait::kGenerated | KindTrait::kProduct},
    {"super_kernel", static_cast<uint8_t>(KindTrait::kGenerated)},
    {"nested", KindTrait::kOfHost | KindTrait::kRebindable | KindTrait::kCallable},
    {"group", static_cast<uint8_t>(KindTrait::kGenerated)},
});

inline constexpr std::array<std::string_view, kTaskKinds.size()> kTaskKindNames = [] {
  std::array<std::string_view, kTaskKinds.size()> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kTaskKinds[i].name;
  return names;
}();

constexpr std::string_view name_of(TaskKind kind) { return kTaskKinds[static_cast<size_t>(kind)].name; }
constexpr bool has(TaskKind kind, KindTrait trait) {
  return (kTaskKinds[static_cast<size_t>(kind)].traits & static_cast<uint8_t>(trait)) != 0;
}
constexpr bool is_generated(TaskKind kind) { return has(kind, KindTrait::kGenerated); }
constexpr bool is_callable(TaskKind kind) { return has(kind, KindTrait::kCallable); }

inline constexpr int kProgramVersion = 4;
inline constexpr int32_t kNone = -1;
inline constexpr int32_t kStorageOffset = -2;  // see Symbol::dim

// A size: a constant, or an entry of Program::exprs.
struct Dim {
  int64_t constant = 0;
  int32_t expr = kNone;
  bool is_constant() const { return expr == kNone; }
  bool operator==(const Dim&) const = default;
};

enum class BufferClass : uint8_t {
  kInput,      // the caller's memory, bound at every call
  kParameter,  // the same, known not to move often: parameters, module buffers, static addresses
  kConstant,   // bytes that the Program carries
  kArena,      // planned memory, offsets solved per Instance
  kOutput,     // fresh memory of the host for each replay, given to the caller
  kHeap,  // allocated by the task that writes it first and adopted (Buffer::preallocated); released after its last use
};

struct Buffer {
  std::string name;
  BufferClass cls = BufferClass::kArena;
  Dim bytes;               // 0 for heap buffers of unknown size and for opaque ones
  int32_t source = kNone;  // input or constant index
  bool opaque = false;     // not strided memory; carried as ng_buffer::object
  Device device;           // device of the tensors over it; every device uses host memory
  // Heap buffers only: the runtime allocates `bytes` from the host before `first_task`, because that task does not
  // allocate its results. Set by plan() for buffers that it moves out of the arena.
  bool preallocated = false;
  // Filled by plan(): index of the first and the last task that touches it; kNone when no task does. An output's life
  // ends with the Program. With several streams, a life ends with the last task that may run before all tasks that
  // touch the buffer are done.
  int32_t first_task = kNone;
  int32_t last_task = kNone;
};

enum class Access : uint8_t { kRead, kWrite, kReadWrite };

// A strided window into a buffer. `byte_offset` counts from the buffer's first byte; sizes and strides are in elements.
struct Operand {
  int32_t buffer = kNone;
  Access access = Access::kRead;
  bool copied = false;  // the task only moves the elements that it writes here: they count as copied bytes
  DType dtype = DType::kF32;
  Dim byte_offset;
  std::vector<Dim> sizes;
  std::vector<Dim> strides;
};

// Whether windows into one buffer, or into two that become one, are the same elements in the same dimensions.
bool same_window(const Operand& a, const Operand& b);
// Whether both are the same elements in the same order. Dimensions of one element are ignored, and contiguous
// neighbours of constant size and stride count as one dimension.
bool same_elements(const Operand& a, const Operand& b);

// The name of the tasks that wait for collectives which other tasks have begun.
inline constexpr std::string_view kWaitTask = "npugraph.wait";
// The name of tasks that record an event of the process on their stream.
inline constexpr std::string_view kEventTask = "npugraph_ex.record_program_event";

// A symbol that a task defines: an entry of ng_call::defined, in the order of Task::defines.
struct Defined {
  int32_t symbol = kNone;   // index into Program::symbols
  int32_t operand = kNone;  // the operand whose size it is ...
  int32_t dim = kNone;      // ... in this dimension; kNone: the symbol is a scalar that the operator returns
  int32_t result = kNone;   // index of that scalar among the returns of the operator's schema
};

// The task is still correct when operand `written` occupies the memory of operand `read` and both are the same
// elements: it reads each element before it overwrites it. Set by lowering where a result has the layout of an input;
// used by plan().
struct Share {
  int32_t written = kNone;
  int32_t read = kNone;
};

struct Task {
  TaskKind kind = TaskKind::kAten;
  std::string name;    // "aten.mm.out", "kernel.linear_f32"; what the builder looks up
  std::string schema;  // of an ATen operator, as in the graph; for the schema check when loading
  std::vector<Operand> operands;
  // Arguments in schema order; a TensorRef id is an operand index. The non-constant expressions in them, in order, are
  // ng_call::scalars.
  std::vector<Attr> args;
  std::vector<int32_t> results;  // operand index of each result that the operator returns; kNone: not kept
  std::vector<int32_t> scalars;  // expression of each ng_call::scalars entry
  std::vector<Defined> defines;
  std::vector<Share> may_share;
  int32_t callable = kNone;  // is_callable(): which callable of the host
  // Whether the ATen operator is not one of torch itself. Such an operator may keep the tensors that it is given, call
  // Python, and behave differently on each device.
  bool foreign = false;
  int32_t stream = 0;
  // Earlier tasks of other streams that it waits for, ascending. Earlier tasks of its own stream always precede it.
  std::vector<int32_t> waits;
  CoreLimits limits;
  std::string origin;  // FX node
  std::string source;  // "file.py:12 in forward"
  std::string reason;  // why it is not generated code; empty when it is
  // Filled by plan(): heap buffers that die after this task.
  std::vector<int32_t> releases;
};

struct Symbol {
  std::string name;
  ScalarKind kind = ScalarKind::kInt;
  // The source of its value: scalar input `input` (dim kNone), size `dim` of tensor input `input`, the storage offset
  // of that input in elements (dim kStorageOffset), or task `task`.
  int32_t input = kNone;
  int32_t dim = kNone;
  int32_t task = kNone;
  // Inclusive bounds under which the Program is right; of integers that come from inputs alone.
  int64_t min = INT64_MIN;
  int64_t max = INT64_MAX;
};

struct Input {
  std::string source;      // Dynamo's source, "L['x']"
  int32_t buffer = kNone;  // kNone: a scalar, see Symbol::input
  DType dtype = DType::kF32;
  std::vector<Dim> sizes;  // as guarded by the front end; checked at calls that do not come through Dynamo
  std::vector<Dim> strides;
  bool mutated = false;  // some task writes it
  // Storage offset that the tensor must have, in elements: the windows of the Program are computed from it.
  std::optional<Dim> storage_offset;
};

struct Output {
  enum class Kind : uint8_t { kTensor, kInput, kScalar, kNone };
  Kind kind = Kind::kNone;
  Operand tensor;         // kTensor: a window into a buffer (of any class)
  int32_t input = kNone;  // kInput: the caller's own tensor is returned; kTensor: the input that it is a window of
  Dim scalar;             // kScalar
  ScalarKind scalar_kind = ScalarKind::kInt;
};

struct Constant {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  bool derived = false;
  int64_t bytes = 0;
  // Keeps `data` alive. Opaque constants have no data; their owner is the host's object.
  std::shared_ptr<void> owner;
  const void* data = nullptr;
};

struct Program {
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<Expr> exprs;  // every expression but the integer constants, once
  std::vector<Buffer> buffers;
  std::vector<Constant> constants;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Task> tasks;
  // Expressions of inputs' symbols that are true for every call; the Program is right only then.
  std::vector<int32_t> conditions;
  std::vector<int32_t> segments;  // index one past the last task of each segment; the last equals tasks.size()

  // The Dim of `e`: an integer constant, or the index of its entry in `exprs`, added on first use.
  Dim dim(const Expr& e);
  Expr expr(const Dim& d) const;

 private:
  std::unordered_map<Expr, int32_t, ExprHash> expr_index_;
};

// Whether the tasks use more than one stream.
bool has_streams(const Program& program);

// Per expression: the last of the tasks that define its symbols; kNone when it follows from the inputs alone.
std::vector<int32_t> defining_tasks(const Program& program);

// Checks every index and every rule above for a planned Program. Returns the first violation, or an empty string. It is
// a violation if a window leaves its buffer for all sizes (window_facts.h); undecided ones are checked when sizes are
// bound.
std::string verify(const Program& program);

// The words of the text form (text.h), once for the printer and the parser. Each list is in the order of its
// enumeration.

inline constexpr std::array<std::string_view, 6> kBufferClassNames = {"input", "parameter", "constant",
                                                                      "arena", "output",    "heap"};
inline constexpr std::array<std::string_view, 3> kAccessNames = {"read", "write", "readwrite"};

// Whether the class names an input or a constant: Buffer::source.
inline bool has_source(BufferClass cls) {
  return cls == BufferClass::kInput || cls == BufferClass::kParameter || cls == BufferClass::kConstant;
}

// The first argument of the task if that is a text, as it is of generated tasks without parts; else null.
inline const std::string* text_of(const Task& task) {
  return task.args.empty() ? nullptr : std::get_if<std::string>(&task.args.front());
}

}  // namespace npugraph::program
