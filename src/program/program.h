// SPDX-License-Identifier: Apache-2.0
// The Program: immutable result of a compile, independent of sizes. A list of tasks over buffers, to be bound to symbol
// values and addresses by the runtime.
//
// Rules, checked by verify():
// - Tasks are in program order. What a task reads and writes is declared by its operands; order and safety derive from that.
// - Tasks of one stream run in program order; tasks of different streams may run at once, but for Task::waits. Memory is shared
//   only by buffers all of whose tasks are ordered.
// - Views are not tasks: an operand is a strided window into a buffer.
// - Symbols come from inputs, or are defined by a task. A segment ends after a task that defines a symbol. What a task uses
//   is known before it runs; only the heap buffers that it allocates itself may have sizes that it defines.
// - A buffer whose size depends on a task-defined symbol is never in the arena.
// - Constants are never written. Outputs are never windows into the arena.
// - A buffer's life covers every task that touches it; a heap buffer is released exactly once, after its last use, unless
//   it is returned.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/task_kind.h"
#include "tensor/attr.h"
#include "tensor/core_limits.h"

namespace npugraph::program {

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
  kHeap,  // allocated by the task that writes it first and adopted, see Buffer::preallocated; released after its last use
};

struct Buffer {
  std::string name;
  BufferClass cls = BufferClass::kArena;
  Dim bytes;               // 0 for heap buffers of unknown size and for opaque ones
  int32_t source = kNone;  // input or constant index
  bool opaque = false;     // not strided memory; carried as ng_buffer::object
  Device device;           // of tensors over it; the memory is the host's whatever it is called
  // Of a heap buffer: the runtime allocates `bytes` from the host before `first_task`, because that task writes into memory
  // that it is given. Set by plan() for buffers that it moves out of the arena.
  bool preallocated = false;
  // Filled by plan(): index of the first and the last task that touches it; kNone when no task does. An output's life ends
  // with the Program. With several streams a life ends with the last task that may run before all that touch it are done.
  int32_t first_task = kNone;
  int32_t last_task = kNone;
};

enum class Access : uint8_t { kRead, kWrite, kReadWrite };

// A strided window into a buffer. `byte_offset` counts from the buffer's first byte; sizes and strides are in elements.
struct Operand {
  int32_t buffer = kNone;
  Access access = Access::kRead;
  bool copied = false;  // what is written here was only moved: it counts as copied bytes
  DType dtype = DType::kF32;
  Dim byte_offset;
  std::vector<Dim> sizes;
  std::vector<Dim> strides;
};

// Whether windows into one buffer, or into two that become one, are the same elements in the same dimensions.
bool same_window(const Operand& a, const Operand& b);
// Whether they are the same elements in the same order, though dimensions of one element, or parts of others, be cut
// differently; only constant sizes are compared across such cuts.
bool same_elements(const Operand& a, const Operand& b);

// The name of the collective tasks that wait for what others have begun.
inline constexpr std::string_view kWaitTask = "npugraph.wait";
// The name of tasks that record an event of the process on their stream.
inline constexpr std::string_view kEventTask = "npugraph_ex.record_program_event";

// A symbol that a task defines: an entry of ng_call::defined, in the order of Task::defines.
struct Defined {
  int32_t symbol = kNone;   // index into Program::symbols
  int32_t operand = kNone;  // the operand whose size it is ...
  int32_t dim = kNone;      // ... in this dimension; kNone: a scalar that the operator returns,
  int32_t result = kNone;   // which stands there among the returns of its schema
};

// The task is right when operand `written` is the memory of operand `read`, and both are the same elements: each is read before
// it is overwritten. Lowering says so where results lie as what they are made of; plan() uses it.
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
  // Of an ATen operator: not torch's own. It may keep the tensors that it is given, call Python, and differ from device to
  // device.
  bool foreign = false;
  int32_t stream = 0;
  // Earlier tasks of other streams that it waits for, ascending. Those of its own stream come before it anyway.
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
  // Where its value comes from: scalar input `input` (dim kNone), size `dim` of tensor input `input`, the place of that input
  // in its storage in elements (dim kStorageOffset), or task `task`.
  int32_t input = kNone;
  int32_t dim = kNone;
  int32_t task = kNone;
};

struct Input {
  std::string source;      // Dynamo's source, "L['x']"
  int32_t buffer = kNone;  // kNone: a scalar, see Symbol::input
  DType dtype = DType::kF32;
  std::vector<Dim> sizes;  // what the front end guards, for checks when Dynamo is not in front
  std::vector<Dim> strides;
  bool mutated = false;  // some task writes it
  // Where the tensor must lie in its storage, in elements: only then its windows are the places that the program names.
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
  std::vector<int32_t> segments;  // index one past the last task of each segment; the last equals tasks.size()

  // The Dim of `e`: an integer constant, or the index of its entry in `exprs`, added on first use.
  Dim dim(const Expr& e);
  Expr expr(const Dim& d) const;

 private:
  std::unordered_map<Expr, int32_t, ExprHash> expr_index_;
};

// Whether tasks are of several streams.
bool has_streams(const Program& program);

// Per expression: the last of the tasks that define its symbols; kNone when it follows from the inputs alone.
std::vector<int32_t> defining_tasks(const Program& program);

// Checks every index and rule above, of a planned Program. Empty, or the first violation. A window that leaves its buffer is one
// where that follows for all sizes (window_fit.h); where it cannot be told, the window is checked when sizes are bound.
std::string verify(const Program& program);

}  // namespace npugraph::program
