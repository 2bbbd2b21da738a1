// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "program/program.h"
#include "program/text.h"
#include "tensor/lexer.h"

namespace npugraph::program {
namespace {

// Appends to one string; each expression is turned into text once.
class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {
    for (const Expr& e : program.exprs) expr_text_.push_back(e.str());
  }

  std::string print() {
    add("npugraph.program ", kProgramVersion, " @", is_identifier(program_.name) ? program_.name : quote(program_.name),
        " {\n");
    for (const Symbol& symbol : program_.symbols) print_symbol(symbol);
    for (size_t i = 0; i < program_.buffers.size(); ++i) print_buffer(i);
    for (size_t i = 0; i < program_.constants.size(); ++i) print_constant(i);
    for (size_t i = 0; i < program_.inputs.size(); ++i) print_input(i);
    for (const int32_t condition : program_.conditions) add("  require ", Dim{.expr = condition}, "\n");
    for (size_t i = 0; i < program_.tasks.size(); ++i) print_task(i);
    for (const int32_t end : program_.segments) add("  segment ", end, "\n");
    for (const Output& output : program_.outputs) print_output(output);
    add("}\n");
    return std::move(out_);
  }

 private:
  template <typename... Parts>
  void add(const Parts&... parts) {
    (put(parts), ...);
  }
  void put(std::string_view text) { out_ += text; }
  void put(int64_t value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    out_.append(digits, end);
  }
  void put(int32_t value) { put(static_cast<int64_t>(value)); }
  void put(size_t value) { put(static_cast<int64_t>(value)); }
  void put(const Dim& dim) { dim.is_constant() ? put(dim.constant) : put(std::string_view(expr_text_.at(dim.expr))); }
  void put_index(int32_t index) { index == kNone ? put("none") : put(index); }

  template <typename T, typename Put>
  void put_list(const std::vector<T>& items, Put put_item) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) put(", ");
      put_item(items[i]);
    }
  }
  // "  word(a, b)", or nothing for an empty list.
  template <typename T, typename Put>
  void put_clause(std::string_view word, const std::vector<T>& items, Put put_item) {
    if (items.empty()) return;
    add(" ", word, "(");
    put_list(items, put_item);
    put(")");
  }
  void put_text_clause(std::string_view word, const std::string& text) {
    if (!text.empty()) add(" ", word, " ", quote(text));
  }
  template <typename Size>
  void put_type(DType dtype, const std::vector<Size>& sizes, const std::vector<Size>& strides) {
    add(" : ", name_of(dtype), "[");
    put_list(sizes, [&](const Size& size) { put(size); });
    add("]{");
    put_list(strides, [&](const Size& stride) { put(stride); });
    add("}");
  }
  void put_window(const Operand& operand) {
    add("b", operand.buffer, "+", operand.byte_offset);
    put_type(operand.dtype, operand.sizes, operand.strides);
  }

  void print_symbol(const Symbol& symbol);
  void print_buffer(size_t index);
  void print_constant(size_t index);
  void print_input(size_t index);
  void print_task(size_t index);
  void print_arguments(const Task& task);
  void print_output(const Output& output);

  const Program& program_;
  std::vector<std::string> expr_text_;
  std::string out_;
};

void Printer::print_symbol(const Symbol& symbol) {
  add("  symbol ", symbol.name, " : ", name_in(kScalarKindNames, symbol.kind), bounds_text(symbol.min, symbol.max),
      " = ");
  if (symbol.task != kNone) {
    add("task(", symbol.task, ")\n");
  } else if (symbol.dim == kNone) {
    add("input(", symbol.input, ")\n");
  } else if (symbol.dim == kStorageOffset) {
    add("offset(", symbol.input, ")\n");
  } else {
    add("size(", symbol.input, ", ", symbol.dim, ")\n");
  }
}

void Printer::print_buffer(size_t index) {
  const Buffer& buffer = program_.buffers[index];
  add("  buffer b", index);
  if (!buffer.name.empty()) add(" ", quote(buffer.name));
  add(" ", name_in(kBufferClassNames, buffer.cls));
  if (has_source(buffer.cls)) add("(", buffer.source, ")");
  if (buffer.opaque) add(" opaque");
  if (buffer.preallocated) add(" preallocated");
  if (buffer.device != Device{}) add(" ", to_text(Attr(buffer.device), {}));
  if (buffer.bytes != Dim{}) add(" bytes(", buffer.bytes, ")");
  if (buffer.first_task != kNone) add(" live(", buffer.first_task, ", ", buffer.last_task, ")");
  add("\n");
}

void Printer::print_constant(size_t index) {
  const Constant& constant = program_.constants[index];
  add("  constant c", index, " ", quote(constant.name));
  put_type(constant.dtype, constant.sizes, constant.strides);
  if (constant.derived) add(" derived");
  add(" bytes(", constant.bytes, ")\n");
}

void Printer::print_input(size_t index) {
  const Input& input = program_.inputs[index];
  add("  input ", index, " ", quote(input.source));
  if (input.buffer == kNone) {
    add(" scalar\n");
    return;
  }
  add(" b", input.buffer);
  put_type(input.dtype, input.sizes, input.strides);
  if (input.storage_offset) add(" at(", *input.storage_offset, ")");
  add(input.mutated ? " mutated\n" : "\n");
}

void Printer::print_task(size_t index) {
  const Task& task = program_.tasks[index];
  add("  task ", index, " ", name_in(kTaskKindNames, task.kind), " ", quote(task.name));
  if (task.stream != 0) add(" stream(", task.stream, ")");
  put_clause("waits", task.waits, [&](int32_t other) { add(other); });
  if (task.limits != CoreLimits{}) add(" limits(", task.limits.cube, ", ", task.limits.vector, ")");
  if (task.callable != kNone) add(" callable(", task.callable, ")");
  if (task.foreign) add(" foreign");
  add(" {\n");
  for (const Operand& operand : task.operands) {
    add("    ", name_in(kAccessNames, operand.access), operand.copied ? " copied " : " ");
    put_window(operand);
    add("\n");
  }
  print_arguments(task);
  if (!task.schema.empty()) add("    schema ", quote(task.schema), "\n");
  const size_t line = out_.size();
  put_text_clause("origin", task.origin);
  put_text_clause("source", task.source);
  put_text_clause("reason", task.reason);
  put_clause("releases", task.releases, [&](int32_t buffer) { add("b", buffer); });
  if (out_.size() > line) {
    out_.insert(line, "   ");
    add("\n");
  }
  add("  }\n");
}

void Printer::print_arguments(const Task& task) {
  static const std::function<std::string(TensorRef)> operand_name = [](TensorRef ref) {
    return std::to_string(ref.id);
  };
  add("    args(");
  put_list(task.args, [&](const Attr& arg) { put(to_text(arg, operand_name)); });
  add(")");
  put_clause("results", task.results, [&](int32_t operand) { put_index(operand); });
  put_clause("defines", task.defines, [&](const Defined& defined) {
    add(program_.symbols[defined.symbol].name, " = ");
    if (defined.dim == kNone) {
      add("result(", defined.result, ")");
    } else {
      add("size(", defined.operand, ", ", defined.dim, ")");
    }
  });
  put_clause("may_share", task.may_share, [&](const Share& share) { add(share.written, " = ", share.read); });
  add("\n");
}

void Printer::print_output(const Output& output) {
  switch (output.kind) {
    case Output::Kind::kTensor:
      add("  output tensor ");
      put_window(output.tensor);
      break;
    case Output::Kind::kInput: add("  output input ", output.input); break;
    case Output::Kind::kScalar:
      add("  output scalar ", output.scalar, " : ", name_in(kScalarKindNames, output.scalar_kind));
      break;
    case Output::Kind::kNone: add("  output none"); break;
  }
  add("\n");
}

}  // namespace

std::string print(const Program& program) { return Printer(program).print(); }

std::string print_task_names(const Program& program) {
  std::string names;
  for (const Task& task : program.tasks) {
    const bool copies = std::ranges::any_of(task.operands, &Operand::copied);
    names += cat(names.empty() ? "" : " ", task.name, copies ? "*" : "");
  }
  return names;
}

}  // namespace npugraph::program
