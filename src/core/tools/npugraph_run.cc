// SPDX-License-Identifier: Apache-2.0
// npugraph-run: runs a saved Program or a model of GE on NumPy files, with neither Python nor torch in the process.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/trace.h"
#include "base/words.h"
#include "compiler/task_makers.h"
#include "ge/engine/compile.h"
#include "ge/wire.h"
#include "libraries/library.h"
#include "program/call_symbols.h"
#include "program/file.h"
#include "program/program.h"
#include "program/text.h"
#include "runtime/executable.h"
#include "runtime/malloc_host.h"
#include "runtime/observation.h"
#include "tensor/npy.h"
#include "tensor/shape.h"
#include "tools/command_line.h"

namespace npugraph::tools {
namespace {

using program::Output;

using program::input_name;
using program::Program;
using program::shape_text;

std::string output_text(const Program& program, const Output& output) {
  switch (output.kind) {
    case Output::Kind::kTensor: return shape_text(program, name_of(output.tensor.dtype), output.tensor.sizes);
    case Output::Kind::kInput: return input_name(program, output.input);
    case Output::Kind::kScalar: return program.expr(output.scalar).str();
    case Output::Kind::kNone: return "none";
  }
  return "";
}

// "f32[s0, 3]", or "a scalar"; ", of the model" behind it for parameters.
std::string input_text(const Program& program, size_t input) {
  const program::Input& entry = program.inputs[input];
  if (entry.buffer == program::kNone) return "a scalar";
  const bool is_of_model = program.buffers[entry.buffer].cls == program::BufferClass::kParameter;
  return shape_text(program, name_of(entry.dtype), entry.sizes) + (is_of_model ? ", of the model" : "");
}

// Inputs, outputs, tasks by kind and bytes of constants, in lines.
std::string summary(const Program& program) {
  std::string text = cat("graph ", program.name, "\n");
  for (size_t i = 0; i < program.inputs.size(); ++i)
    text += cat("  ", input_name(program, i), ": ", input_text(program, i), "\n");
  for (size_t i = 0; i < program.outputs.size(); ++i)
    text += cat("  output ", i, ": ", output_text(program, program.outputs[i]), "\n");
  std::map<std::string_view, size_t> kinds;
  for (const program::Task& task : program.tasks) ++kinds[name_of(task.kind)];
  text += cat("  ", counted(program.tasks.size(), "task"));
  for (const char* before = ": "; const auto& [kind, count] : kinds)
    text += cat(std::exchange(before, ", "), count, " ", kind);
  int64_t bytes = 0;
  for (const program::Constant& constant : program.constants) bytes += constant.bytes;
  return text + cat("\n  ", counted(program.constants.size(), "constant"), " of ", counted(bytes, "byte"), "\n");
}

using program::BufferClass;
using program::kNone;

struct Arguments {
  std::string program;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> libraries;
  int repeat = 1;
  bool time = false;
  bool summary = false;
};

// A model of GE, compiled for this machine.
std::shared_ptr<const program::Program> compile_model(const std::string& path) {
  return std::make_shared<program::Program>(ge::compile_model(ge::read_model(path)).program);
}

// A model where the file ends in .air, else a saved Program, or one in text form where the file ends in .program.
std::shared_ptr<const program::Program> load_program(const std::string& path) {
  if (path.ends_with(".air")) return compile_model(path);
  if (!path.ends_with(".program")) return std::make_shared<program::Program>(program::load(path).program);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError(cat("cannot read '", path, "'"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (program::is_saved(text)) return std::make_shared<program::Program>(program::load(path).program);
  auto parsed = std::make_shared<program::Program>(program::parse(text, path));
  if (!parsed->constants.empty())
    throw UserError(cat("'", path, "' has constants, whose bytes the text form does not carry"));
  return parsed;
}

Scalar parse_scalar(const std::string& text, ScalarKind kind, const std::string& what) {
  const char* end = text.data() + text.size();
  Scalar value{.kind = kind};
  std::from_chars_result result{text.data(), std::errc()};
  if (kind == ScalarKind::kBool) {
    value.i = text == "true";
    result.ptr = text == "true" || text == "false" ? end : text.data();
  } else if (kind == ScalarKind::kInt) {
    result = std::from_chars(text.data(), end, value.i);
  } else {
    result = std::from_chars(text.data(), end, value.f);
  }
  if (text.empty() || result.ptr != end || result.ec != std::errc()) {
    constexpr const char* kKinds[] = {"an integer", "a number", "true or false"};
    throw UserError(cat(what, " is ", kKinds[static_cast<int>(kind)], ", got '", text, "'"));
  }
  return value;
}

// The inputs of one call, checked against the Program and laid out with its strides.
class Inputs {
 public:
  Inputs(const program::Program& program, const std::vector<std::string>& arguments)
      : program_(program), symbols_(program) {
    if (arguments.size() != program.inputs.size()) fail_count(arguments.size());
    arrays_.resize(arguments.size());
    strides_.resize(arguments.size());
    bound_.resize(arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (program.inputs[i].buffer != kNone) arrays_[i] = read_npy(arguments[i]);
    }
    find_symbols(arguments);
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (program.inputs[i].buffer != kNone) lay_out(i);
    }
    check_windows();
  }

  std::span<const runtime::BoundInput> bound() const { return bound_; }

  // Tensor input `i` as it is now, in the form of a result.
  runtime::BoundOutput current(size_t i) const {
    return {.kind = Output::Kind::kInput,
            .data = bound_[i].data,
            .sizes = arrays_[i].sizes,
            .strides = strides_[i],
            .dtype = arrays_[i].dtype};
  }

 private:
  std::string name(size_t i) const { return program::input_name(program_, i); }

  [[noreturn]] void fail_count(size_t got) const {
    std::string wanted;
    for (size_t i = 0; i < program_.inputs.size(); ++i) wanted += cat("\n  ", name(i), ": ", input_text(program_, i));
    throw UserError(cat("the Program takes ", counted(program_.inputs.size(), "input"), ", got ", got, ":", wanted));
  }

  void find_symbols(const std::vector<std::string>& arguments) {
    for (const program::Symbol& symbol : program_.symbols) {
      if (symbol.input == kNone) continue;
      Scalar value;
      if (symbol.dim == kNone) {
        value = parse_scalar(arguments[symbol.input], symbol.kind, name(symbol.input));
        bound_[symbol.input].scalar =
            value.kind == ScalarKind::kFloat ? ng_scalar{.f = value.f} : ng_scalar{.i = value.i};
      } else {
        check_rank(symbol.input);
        const bool is_offset = symbol.dim == program::kStorageOffset;
        value = Scalar::of_int(is_offset ? 0 : arrays_[symbol.input].sizes[symbol.dim]);
      }
      symbols_.set(symbol, value);
    }
  }

  void check_rank(size_t i) const {
    const program::Input& input = program_.inputs[i];
    if (arrays_[i].dtype == input.dtype && arrays_[i].sizes.size() == input.sizes.size()) return;
    fail_shape(i);
  }

  [[noreturn]] void fail_shape(size_t i) const {
    const program::Input& input = program_.inputs[i];
    throw UserError(cat(name(i), " is ", program::shape_text(program_, name_of(input.dtype), input.sizes),
                        symbols_.text(), ", got ", program::shape_text(name_of(arrays_[i].dtype), arrays_[i].sizes)));
  }

  // Copies the row-major array to the strides that the Program was compiled for.
  void lay_out(size_t i) {
    check_rank(i);
    const program::Input& input = program_.inputs[i];
    NpyArray& array = arrays_[i];
    if (symbols_.values(input.sizes) != array.sizes) fail_shape(i);
    const auto& strides = strides_[i] = symbols_.values(input.strides);
    std::vector<char> laid(strided_bytes(array.sizes, strides, array.dtype));
    copy_from_row_major(array.data.data(), array.sizes, strides, array.dtype, laid.data());
    array.data = std::move(laid);
    bound_[i].data = array.data.data();
    bound_[i].sizes = array.sizes.data();
  }

  // The runtime trusts windows into inputs, because a tensor may be a part of a larger storage. Files are not trusted.
  void check_windows() const {
    const auto defined_by = program::defining_tasks(program_);
    const auto is_late = [&](const program::Dim& dim) { return !dim.is_constant() && defined_by[dim.expr] != kNone; };
    const auto check = [&](const program::Operand& operand) {
      const program::Buffer& buffer = program_.buffers[operand.buffer];
      if (buffer.cls != BufferClass::kInput && buffer.cls != BufferClass::kParameter) return;
      const bool late = is_late(operand.byte_offset) || std::ranges::any_of(operand.sizes, is_late) ||
                        std::ranges::any_of(operand.strides, is_late);
      const int64_t extent =
          late ? 0 : extent_bytes(symbols_.values(operand.sizes), symbols_.values(operand.strides), operand.dtype);
      const auto room = static_cast<int64_t>(arrays_[buffer.source].data.size());
      if (late || (extent > 0 &&
                   (symbols_.value(operand.byte_offset) < 0 || symbols_.value(operand.byte_offset) > room - extent))) {
        throw UserError(cat("the Program reaches outside of ", name(buffer.source), ": it is damaged or needs torch"));
      }
    };
    for (const auto& task : program_.tasks) std::ranges::for_each(task.operands, check);
    for (const auto& output : program_.outputs) {
      if (output.kind == Output::Kind::kTensor) check(output.tensor);
    }
  }

  const program::Program& program_;
  std::vector<NpyArray> arrays_;
  std::vector<std::vector<int64_t>> strides_;
  std::vector<runtime::BoundInput> bound_;
  program::CallSymbols symbols_;
};

// A tensor result, row-major.
NpyArray row_major(const runtime::BoundOutput& output) {
  NpyArray array{output.dtype, {output.sizes.begin(), output.sizes.end()}, {}};
  array.data.resize(dense_bytes(array.sizes, output.dtype));
  copy_to_row_major(output.data, array.sizes, output.strides, output.dtype, array.data.data());
  return array;
}

Scalar scalar_of(const runtime::BoundOutput& output) {
  Scalar value{.kind = output.scalar_kind};
  value.i = output.scalar.i;  // the bits of a float too
  return value;
}

std::string describe(const Output& declared, const runtime::BoundOutput& output) {
  switch (declared.kind) {
    case Output::Kind::kTensor: return program::shape_text(name_of(output.dtype), output.sizes);
    case Output::Kind::kInput:
      return cat("input ", declared.input, ", ", program::shape_text(name_of(output.dtype), output.sizes));
    case Output::Kind::kScalar: return Expr::constant(scalar_of(output)).str();
    case Output::Kind::kNone: return "none";
  }
  return "";
}

bool is_tensor(Output::Kind kind) { return kind == Output::Kind::kTensor || kind == Output::Kind::kInput; }

void write(const Output& declared, const runtime::BoundOutput& output, const std::string& path) {
  if (!is_tensor(declared.kind)) {
    throw UserError(cat("cannot write '", path, "': the output is no tensor but ", describe(declared, output)));
  }
  const NpyArray array = row_major(output);
  write_npy(path, array.dtype, array.sizes, array.data);
}

void release(runtime::Host& host, std::vector<runtime::BoundOutput>& outputs) {
  for (runtime::BoundOutput& output : outputs) {
    if (output.object != nullptr) host.release(output.object);
    output.object = nullptr;
  }
}

void print_times(std::vector<int64_t> times) {
  std::ranges::sort(times);
  const auto us = [](int64_t ns) { return static_cast<double>(ns) / 1e3; };
  std::printf("%zu runs: median %.1f us, min %.1f us, max %.1f us\n", times.size(), us(times[times.size() / 2]),
              us(times.front()), us(times.back()));
}

// The file of each output: those that were named, or those of all tensors in the directory that was named. Empty for an
// output without a file.
std::vector<std::string> output_files(const std::vector<std::string>& named, const program::Program& program) {
  const size_t outputs = program.outputs.size();
  if (named.size() == 1 && std::filesystem::is_directory(named.front())) {
    std::vector<std::string> files;
    for (size_t i = 0; i < outputs; ++i) {
      const bool has_file = is_tensor(program.outputs[i].kind);
      files.push_back(has_file ? (std::filesystem::path(named.front()) / cat("output", i, ".npy")).string() : "");
    }
    return files;
  }
  if (named.size() > outputs)
    throw UserError(cat("the Program has ", counted(outputs, "output"), ", got ", counted(named.size(), "file")));
  std::vector<std::string> files = named;
  files.resize(outputs);
  return files;
}

void print_memory(const runtime::MemoryInfo& memory) {
  std::cout << cat("memory: ", counted(memory.arena_bytes, "byte"), " for intermediate results, ",
                   counted(memory.scratch_bytes, "byte"), " for workspaces, ", counted(memory.heap_bytes, "byte"),
                   " for outputs and what tasks allocate\n");
}

void run(const Arguments& arguments) {
  for (const std::string& library : arguments.libraries) libraries::load(library);
  const auto program = load_program(arguments.program);
  if (arguments.summary) std::cout << summary(*program);
  if (arguments.summary && arguments.inputs.empty() && !program->inputs.empty()) return;
  const std::vector<std::string> files = output_files(arguments.outputs, *program);
  runtime::MallocHost host;
  runtime::Executable executable(program, host, compiler::make_task, {}, program->name);
  const Inputs inputs(*program, arguments.inputs);
  std::vector<runtime::BoundOutput> outputs(program->outputs.size());
  std::vector<int64_t> dims;
  std::vector<int64_t> times;
  for (int i = 0; i < arguments.repeat; ++i) {
    release(host, outputs);
    const int64_t start = now_ns();
    const runtime::RunResult result = executable.run({.all = inputs.bound()}, outputs, dims);
    times.push_back(now_ns() - start);
    if (result.status == runtime::RunStatus::kInputsOverlap)
      throw UserError("an input that is written overlaps another one");
    if (result.status == runtime::RunStatus::kInputElsewhere)
      throw UserError("the Program names places in the storage of an input; it needs torch");
    if (result.status != runtime::RunStatus::kOk) {
      const std::string place = result.task ? cat(program::place_of(program->tasks[*result.task]), ": ") : "";
      throw UserError(cat(place, result.error));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Output& declared = program->outputs[i];
    const auto output = declared.kind == Output::Kind::kInput ? inputs.current(declared.input) : outputs[i];
    std::cout << "output " << i << ": " << describe(declared, output) << "\n";
    if (!files[i].empty()) write(declared, output, files[i]);
  }
  release(host, outputs);
  if (arguments.summary) print_memory(runtime::Observation(executable).memory());
  if (arguments.time) print_times(times);
}

}  // namespace

}  // namespace npugraph::tools

int main(int argc, char** argv) {
  CLI::App app("Runs a saved Program or a model of GE on NumPy files, with neither Python nor torch.", "npugraph-run");
  npugraph::tools::Arguments arguments;
  app.add_option("program", arguments.program,
                 "what artifact.save() wrote, a text form ending in .program, or a model of GE ending in .air")
      ->required();
  app.add_option("-i,--input", arguments.inputs, "the next input: a .npy file, or a number, true or false for a scalar")
      ->allow_extra_args(false);
  app.add_option("-o,--output", arguments.outputs,
                 "where to write the next output, a .npy file; or a directory for all of them: output0.npy, ...")
      ->allow_extra_args(false);
  app.add_option("-l,--library", arguments.libraries, "a shared library with kernels of the user's operators")
      ->allow_extra_args(false);
  app.add_option("--repeat", arguments.repeat, "how many times to run")->check(CLI::PositiveNumber);
  app.add_flag("--time", arguments.time, "print the times of the runs");
  app.add_flag("--summary", arguments.summary,
               "print inputs, outputs, tasks and memory; without inputs, do not run what takes some");
  if (const auto code = npugraph::tools::parse(app, argc, argv)) return *code;
  try {
    npugraph::tools::run(arguments);
  } catch (const std::exception& error) {
    std::cerr << "npugraph-run: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
