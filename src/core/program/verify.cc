// SPDX-License-Identifier: Apache-2.0
// Nothing here trusts a number before it has been checked: Programs come from files.
#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "program/program.h"
#include "program/verifier.h"
#include "program/window_facts.h"
#include "tensor/lexer.h"

namespace npugraph::program {
namespace {

// Bytes from the start of the buffer to the end of the window: nullopt if a size, stride or offset is symbolic,
// kOverflow if they exceed an int64_t.
constexpr int64_t kOverflow = -1;

std::optional<int64_t> window_end(const Operand& operand) {
  const auto constant = [](const std::vector<Dim>& dims) {
    return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_constant(); });
  };
  if (!operand.byte_offset.is_constant() || !constant(operand.sizes) || !constant(operand.strides)) return {};
  if (std::find(operand.sizes.begin(), operand.sizes.end(), Dim{0}) != operand.sizes.end()) return 0;

  int64_t last = 0;  // offset of the last element from the first, in elements
  for (size_t i = 0; i < operand.sizes.size(); ++i) {
    int64_t step = 0;
    if (__builtin_mul_overflow(operand.sizes[i].constant - 1, operand.strides[i].constant, &step)) return kOverflow;
    if (__builtin_add_overflow(last, step, &last)) return kOverflow;
  }
  int64_t end = 0;
  if (__builtin_add_overflow(last, int64_t{1}, &end)) return kOverflow;
  if (__builtin_mul_overflow(end, size_of(operand.dtype), &end)) return kOverflow;
  if (__builtin_add_overflow(end, operand.byte_offset.constant, &end)) return kOverflow;
  return end;
}

bool is_bound(const Buffer& buffer) {
  return buffer.cls == BufferClass::kInput || buffer.cls == BufferClass::kParameter;
}

class StructureVerifier : Verifier {
 public:
  explicit StructureVerifier(const Program& program) : Verifier(program) {}

  void check() {
    check_symbols();
    check_exprs();
    check_conditions();
    check_inputs();
    check_constants();
    check_buffers();
    fits_.emplace(program_);
    for (int32_t i = 0; i < count(program_.tasks); ++i) check_task(i);
    for (int32_t i = 0; i < count(program_.outputs); ++i) check_output(i);
  }

 private:
  void check_symbols();
  void check_symbol_origin(const Symbol& symbol, int32_t index);
  void check_exprs();
  void check_conditions();
  void check_inputs();
  void check_constants();
  void check_buffers();
  void check_buffer_source(const Buffer& buffer, int32_t index);
  void check_task(int32_t index);
  void check_task_arguments(const Task& task, int32_t index);
  void check_defines(const Task& task, int32_t index);
  void check_operand(const Operand& operand, int32_t last_definition);
  void check_window(const Operand& operand);
  bool may_start_before(const Operand& operand) const;
  void check_output(int32_t index);
  bool allocates(const Operand& operand) const;

  // A size, stride or offset; its symbols are defined by `last_definition` at the latest (kNone: by inputs alone).
  void check_size(const Dim& dim, int32_t last_definition, std::string_view what) const;

  std::vector<int32_t> defined_by_;  // per expression, see defining_tasks()
  std::optional<WindowFits> fits_;   // set once inputs and buffers are checked
};

void StructureVerifier::check_symbols() {
  std::unordered_map<std::string_view, int32_t> index_of;
  for (int32_t i = 0; i < count(program_.symbols); ++i) {
    at("symbol", i);
    const Symbol& symbol = program_.symbols[i];
    if (!is_identifier(symbol.name)) fail("its name is not an identifier: ", symbol.name);
    if (!index_of.emplace(symbol.name, i).second) fail("the name ", symbol.name, " is taken");
    check_symbol_origin(symbol, i);
  }
}

void StructureVerifier::check_symbol_origin(const Symbol& symbol, int32_t index) {
  if ((symbol.input == kNone) == (symbol.task == kNone)) fail("must come from an input or from a task");
  const bool is_bounded = symbol.min != INT64_MIN || symbol.max != INT64_MAX;
  if (is_bounded && (symbol.kind != ScalarKind::kInt || symbol.task != kNone))
    fail("only an int that comes from an input has bounds");
  if (symbol.task != kNone) {
    if (!has(program_.tasks, symbol.task)) fail("no task ", symbol.task);
    if (symbol.dim != kNone) fail("names a dimension, but comes from a task");
    const auto& defines = program_.tasks[symbol.task].defines;
    const auto matches =
        std::count_if(defines.begin(), defines.end(), [&](const Defined& d) { return d.symbol == index; });
    if (matches != 1) fail("task ", symbol.task, " defines it ", matches, " times");
    return;
  }
  if (!has(program_.inputs, symbol.input)) fail("no input ", symbol.input);
  const Input& input = program_.inputs[symbol.input];
  if (symbol.dim == kNone) {
    if (input.buffer != kNone) fail("input ", symbol.input, " is a tensor: name a dimension");
    return;
  }
  if (input.buffer == kNone || (symbol.dim != kStorageOffset && !has(input.sizes, symbol.dim)))
    fail("input ", symbol.input, " has no dimension ", symbol.dim);
  if (symbol.kind != ScalarKind::kInt) fail("a size or an offset is an int");
}

void StructureVerifier::check_exprs() {
  std::unordered_map<std::string_view, ScalarKind> kind_of;
  for (const Symbol& symbol : program_.symbols) kind_of.emplace(symbol.name, symbol.kind);
  std::vector<std::string> names;
  for (int32_t i = 0; i < count(program_.exprs); ++i) {
    at("expression", i);
    names.clear();
    collect_symbols(program_.exprs[i], names);
    for (const std::string& name : names) {
      if (!kind_of.contains(name)) fail(program_.exprs[i].str(), " uses the unknown symbol ", name);
    }
  }
  defined_by_ = defining_tasks(program_);
}

void StructureVerifier::check_conditions() {
  for (int32_t i = 0; i < count(program_.conditions); ++i) {
    at("condition", i);
    const int32_t condition = program_.conditions[i];
    if (!has(program_.exprs, condition)) fail("no expression ", condition);
    const Expr& e = program_.exprs[condition];
    if (e.kind() != ScalarKind::kBool) fail(e.str(), " is neither true nor false");
    if (defined_by_[condition] != kNone) fail(e.str(), " is known only after task ", defined_by_[condition]);
  }
}

void StructureVerifier::check_size(const Dim& dim, int32_t last_definition, std::string_view what) const {
  if (dim.is_constant()) {
    if (dim.constant < 0) fail(what, " is negative: ", dim.constant);
    return;
  }
  if (!has(program_.exprs, dim.expr)) fail(what, ": no expression ", dim.expr);
  const Expr& e = program_.exprs[dim.expr];
  if (e.kind() != ScalarKind::kInt) fail(what, " is not an integer: ", e.str());
  const int32_t task = defined_by_[dim.expr];
  if (task > last_definition) fail(what, " ", e.str(), " is used before task ", task, " defines it");
}

void StructureVerifier::check_inputs() {
  for (int32_t i = 0; i < count(program_.inputs); ++i) {
    at("input", i);
    const Input& input = program_.inputs[i];
    if (input.sizes.size() != input.strides.size())
      fail("has ", input.sizes.size(), " sizes, ", input.strides.size(), " strides");
    for (const Dim& size : input.sizes) check_size(size, kNone, "a size");
    for (const Dim& stride : input.strides) check_size(stride, kNone, "a stride");
    if (input.storage_offset) check_size(*input.storage_offset, kNone, "its storage offset");
    if (input.buffer == kNone) {
      if (input.storage_offset || input.mutated || !input.sizes.empty())
        fail("a scalar has neither sizes nor a place nor mutations");
      continue;
    }
    if (!has(program_.buffers, input.buffer)) fail("no buffer ", input.buffer);
    const Buffer& buffer = program_.buffers[input.buffer];
    if (!is_bound(buffer) || buffer.source != i) fail("buffer ", input.buffer, " is not that of this input");
  }
}

void StructureVerifier::check_constants() {
  for (int32_t i = 0; i < count(program_.constants); ++i) {
    at("constant", i);
    const Constant& constant = program_.constants[i];
    if (constant.bytes < 0) fail("has ", constant.bytes, " bytes");
    if (constant.sizes.size() != constant.strides.size())
      fail("has ", constant.sizes.size(), " sizes, ", constant.strides.size(), " strides");
    Operand all;
    all.dtype = constant.dtype;
    for (const int64_t size : constant.sizes) all.sizes.push_back({size});
    for (const int64_t stride : constant.strides) all.strides.push_back({stride});
    for (const Dim& size : all.sizes) check_size(size, kNone, "a size");
    for (const Dim& stride : all.strides) check_size(stride, kNone, "a stride");
    const int64_t end = *window_end(all);
    const bool opaque = constant.bytes == 0 && constant.data == nullptr && constant.sizes.empty();
    if (!opaque && (end == kOverflow || end > constant.bytes))
      fail("its elements do not fit ", constant.bytes, " bytes");
  }
}

void StructureVerifier::check_buffers() {
  for (int32_t i = 0; i < count(program_.buffers); ++i) {
    at("buffer", i);
    const Buffer& buffer = program_.buffers[i];
    check_buffer_source(buffer, i);
    check_size(buffer.bytes, count(program_.tasks), "its size");
    const bool heap = buffer.cls == BufferClass::kHeap;
    if (buffer.preallocated && (!heap || buffer.opaque)) fail("only strided heap buffers can be preallocated");
    if (buffer.opaque && (buffer.cls == BufferClass::kArena || buffer.cls == BufferClass::kOutput)) {
      fail("an opaque value cannot live in planned memory");
    }
    const bool late = !buffer.bytes.is_constant() && defined_by_[buffer.bytes.expr] != kNone;
    if (late && buffer.cls == BufferClass::kArena)
      fail("its size is defined by task ", defined_by_[buffer.bytes.expr], ": it cannot be in the arena");
    if (late && buffer.source != kNone) fail("its size is defined by a task, but it exists before");
  }
}

void StructureVerifier::check_buffer_source(const Buffer& buffer, int32_t index) {
  switch (buffer.cls) {
    case BufferClass::kInput:
    case BufferClass::kParameter:
      if (!has(program_.inputs, buffer.source) || program_.inputs[buffer.source].buffer != index) {
        fail("input ", buffer.source, " is not bound to it");
      }
      return;
    case BufferClass::kConstant:
      if (!has(program_.constants, buffer.source)) fail("no constant ", buffer.source);
      if (!buffer.opaque && buffer.bytes != Dim{program_.constants[buffer.source].bytes}) {
        fail("its size is not that of constant ", buffer.source);
      }
      return;
    case BufferClass::kArena:
    case BufferClass::kOutput:
    case BufferClass::kHeap:
      if (buffer.source != kNone) fail("only inputs and constants have a source");
      return;
  }
  fail("unknown class ", static_cast<int>(buffer.cls));
}

bool StructureVerifier::allocates(const Operand& operand) const {
  const Buffer& buffer = program_.buffers[operand.buffer];
  return buffer.cls == BufferClass::kHeap && !buffer.preallocated && operand.access == Access::kWrite;
}

void StructureVerifier::check_operand(const Operand& operand, int32_t last_definition) {
  if (!has(program_.buffers, operand.buffer)) fail("no buffer ", operand.buffer);
  if (operand.sizes.size() != operand.strides.size())
    fail("has ", operand.sizes.size(), " sizes, ", operand.strides.size(), " strides");
  if (!may_start_before(operand)) check_size(operand.byte_offset, last_definition, "the offset");
  for (const Dim& size : operand.sizes) check_size(size, last_definition, "a size");
  for (const Dim& stride : operand.strides) check_size(stride, last_definition, "a stride");
  check_window(operand);
}

// A window may start before its input, since the input's storage does; whether a window leaves the storage is checked
// when inputs are bound.
bool StructureVerifier::may_start_before(const Operand& operand) const {
  const Buffer& buffer = program_.buffers[operand.buffer];
  return operand.byte_offset.is_constant() && is_bound(buffer) && has(program_.inputs, buffer.source) &&
         program_.inputs[buffer.source].storage_offset;
}

void StructureVerifier::check_window(const Operand& operand) {
  const Buffer& buffer = program_.buffers[operand.buffer];
  const bool ours = buffer.cls == BufferClass::kConstant || buffer.cls == BufferClass::kArena ||
                    buffer.cls == BufferClass::kOutput || buffer.preallocated;
  if (!ours || buffer.opaque) return;
  const auto end = buffer.bytes.is_constant() ? window_end(operand) : std::nullopt;
  if (!end) {
    if (fits_->of(operand) == Fit::kNever) fail("the window lies in buffer ", operand.buffer, " for no sizes");
    return;
  }
  if (*end == kOverflow || *end > buffer.bytes.constant) {
    fail("the window does not fit the ", buffer.bytes.constant, " bytes of buffer ", operand.buffer);
  }
}

void StructureVerifier::check_task(int32_t index) {
  const Task& task = program_.tasks[index];
  at("task", index);
  if (task.name.empty()) fail("has no name");
  if (task.stream < 0) fail("stream ", task.stream);
  if (task.limits.cube < 0 || task.limits.vector < 0) fail("has a limit below 0");
  for (const int32_t other : task.waits) {
    if (other < 0 || other >= index) fail("waits for task ", other);
    if (program_.tasks[other].stream == task.stream) fail("waits for task ", other, ", which is of its own stream");
  }
  if (is_callable(task.kind) != (task.callable >= 0)) fail("Python and nested tasks have a callable, and no others");
  if (task.foreign && task.kind != TaskKind::kAten) fail("foreign is said of ATen tasks alone");
  for (int32_t i = 0; i < count(task.operands); ++i) {
    place_ = cat("task ", index, ", operand ", i);
    const Operand& operand = task.operands[i];
    if (!has(program_.buffers, operand.buffer)) fail("no buffer ", operand.buffer);
    check_operand(operand, allocates(operand) ? index : index - 1);
    if (operand.access != Access::kRead && program_.buffers[operand.buffer].cls == BufferClass::kConstant) {
      fail("writes a constant, buffer ", operand.buffer);
    }
    if (operand.copied && operand.access == Access::kRead) fail("is copied, but only read");
  }
  at("task", index);
  check_task_arguments(task, index);
  check_defines(task, index);
}

void StructureVerifier::check_task_arguments(const Task& task, int32_t index) {
  size_t next = 0;
  for (const Attr& arg : task.args) {
    for_each_tensor(arg, [&](TensorRef ref) {
      if (!has(task.operands, ref.id)) fail("an argument names operand ", ref.id);
    });
    for_each_expr(arg, [&](const Expr& e) {
      if (e.is_constant()) return;
      if (next == task.scalars.size() || !has(program_.exprs, task.scalars[next]) ||
          !(program_.exprs[task.scalars[next]] == e)) {
        fail("scalar ", next, " is not its argument ", e.str());
      }
      const int32_t definition = defined_by_[task.scalars[next++]];
      if (definition >= index) fail("argument ", e.str(), " is used before task ", definition, " defines it");
    });
  }
  if (next != task.scalars.size()) fail("has ", task.scalars.size(), " scalars for ", next, " symbolic arguments");
  for (const int32_t result : task.results) {
    if (result != kNone && !has(task.operands, result)) fail("a result names operand ", result);
  }
  for (const Share& share : task.may_share) {
    if (!has(task.operands, share.written) || !has(task.operands, share.read))
      fail("may_share names an operand that is not there");
  }
}

void StructureVerifier::check_defines(const Task& task, int32_t index) {
  for (const Defined& defined : task.defines) {
    if (!has(program_.symbols, defined.symbol)) fail("defines symbol ", defined.symbol, " that is not there");
    const Symbol& symbol = program_.symbols[defined.symbol];
    if (symbol.task != index) fail("defines ", symbol.name, " that does not come from it");
    if (defined.dim == kNone && defined.operand == kNone) {
      if (defined.result < 0) fail(symbol.name, " is result ", defined.result);
      continue;
    }
    if (!has(task.operands, defined.operand) || !has(task.operands[defined.operand].sizes, defined.dim)) {
      fail(symbol.name, " is the size of operand ", defined.operand, " in dimension ", defined.dim,
           " that is not there");
    }
    if (symbol.kind != ScalarKind::kInt) fail(symbol.name, " is a size but not an int");
  }
}

void StructureVerifier::check_output(int32_t index) {
  at("output", index);
  const Output& output = program_.outputs[index];
  switch (output.kind) {
    case Output::Kind::kTensor: {
      check_operand(output.tensor, count(program_.tasks) - 1);
      const Buffer& buffer = program_.buffers[output.tensor.buffer];
      if (buffer.first_task == kNone && !has_source(buffer.cls)) {
        fail("returns buffer ", output.tensor.buffer, ", which no task writes");
      }
      if (buffer.cls == BufferClass::kArena) fail("returns a window into the arena, buffer ", output.tensor.buffer);
      const bool of_input = buffer.cls == BufferClass::kInput || buffer.cls == BufferClass::kParameter;
      if (output.input != (of_input ? buffer.source : kNone)) fail("names input ", output.input);
      return;
    }
    case Output::Kind::kInput:
      if (!has(program_.inputs, output.input) || program_.inputs[output.input].buffer == kNone) {
        fail("input ", output.input, " is not a tensor");
      }
      return;
    case Output::Kind::kScalar: {
      if (!output.scalar.is_constant() && !has(program_.exprs, output.scalar.expr))
        fail("no expression ", output.scalar.expr);
      if (program_.expr(output.scalar).kind() != output.scalar_kind) fail("is not of its declared kind");
      return;
    }
    case Output::Kind::kNone: return;
  }
  fail("unknown kind ", static_cast<int>(output.kind));
}

}  // namespace

std::string verify(const Program& program) {
  try {
    StructureVerifier(program).check();
    verify_plan(program);
    verify_reads(program);
    return {};
  } catch (const Violation& violation) {
    return violation.message;
  }
}

}  // namespace npugraph::program
