// SPDX-License-Identifier: Apache-2.0
#include "libraries/parameters.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace npugraph::libraries {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kWords = {{
    {"int", "int"},
    {"SymInt", "int"},
    {"float", "float"},
    {"Scalar", "float"},
    {"bool", "bool"},
    {"str", "str"},
    {"ScalarType", "ScalarType"},
}};

std::string_view word_of(const ir::SchemaArg& arg, std::string_view element) {
  if (element == "Tensor") return arg.is_write ? "Tensor!" : "Tensor";
  for (const auto& [type, word] : kWords) {
    if (type == element) return word;
  }
  throw UserError(cat("argument '", arg.name, "' is ", arg.type, ", which no kernel takes"));
}

// "Tensor?[]" -> "Tensor?" "[]"; "int[2]" -> "int" "[]".
std::string parameter_of(const ir::SchemaArg& arg) {
  std::string_view type = arg.type;
  std::string ending;
  if (type.ends_with('?')) {
    ending = "?";
    type.remove_suffix(1);
  }
  if (type.ends_with(']')) {
    ending = "[]" + ending;
    type = type.substr(0, type.rfind('['));
  }
  return cat(word_of(arg, type), ending);
}

std::string list_of(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += cat(text.empty() ? "" : ", ", word);
  return cat("(", text, ")");
}

}  // namespace

std::vector<std::string> parameters_of(const ir::Schema& schema) {
  std::vector<std::string> words;
  for (const ir::SchemaArg& arg : schema.args) words.push_back(parameter_of(arg));
  for (const ir::SchemaReturn& result : schema.returns) {
    if (result.is_write) continue;
    if (result.type != "Tensor" || !result.alias.empty())
      throw UserError(cat("a result is ", result.type, result.alias.empty() ? "" : " in the memory of an argument",
                          "; kernels write new tensors and tensors among the arguments"));
    words.push_back("result");
  }
  return words;
}

void check_parameters(const ir::Schema& schema, const ng_kernel& kernel) {
  const std::vector<std::string> expected = parameters_of(schema);
  if (kernel.parameters == nullptr) return;
  const std::vector<std::string> given(kernel.parameters, kernel.parameters + kernel.num_parameters);
  if (given != expected)
    throw UserError(cat("its parameters are ", list_of(given), ", the schema needs ", list_of(expected)));
}

}  // namespace npugraph::libraries
