// SPDX-License-Identifier: Apache-2.0
#include "tools/program_text.h"

#include <map>
#include <utility>

#include "base/error.h"
#include "base/words.h"
#include "program/call_symbols.h"

namespace npugraph::tools {

using program::input_name;
using program::Output;
using program::Program;
using program::shape_text;

namespace {

std::string output_text(const Program& program, const Output& output) {
  switch (output.kind) {
    case Output::Kind::kTensor: return shape_text(program, name_of(output.tensor.dtype), output.tensor.sizes);
    case Output::Kind::kInput: return input_name(program, output.input);
    case Output::Kind::kScalar: return program.expr(output.scalar).str();
    case Output::Kind::kNone: return "none";
  }
  return "";
}

}  // namespace

std::string input_text(const Program& program, size_t input) {
  const program::Input& entry = program.inputs[input];
  if (entry.buffer == program::kNone) return "a scalar";
  const bool is_of_model = program.buffers[entry.buffer].cls == program::BufferClass::kParameter;
  return shape_text(program, name_of(entry.dtype), entry.sizes) + (is_of_model ? ", of the model" : "");
}

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

}  // namespace npugraph::tools
