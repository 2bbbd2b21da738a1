// SPDX-License-Identifier: Apache-2.0
// Prints ops/operators.h: the handles (ops/handle.h) of all rows of the table, and the names of their arguments.
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ops/handle.h"
#include "ops/table.h"

namespace npugraph::ops {
namespace {

// C++ keywords, and the members of Handle.
bool is_taken(std::string_view word) {
  static constexpr std::array<std::string_view, 14> kTaken = {
      "and", "bool", "default", "double", "float", "int", "is", "long", "new", "not", "op", "or", "xor", "kId"};
  return std::ranges::find(kTaken, word) != kTaken.end();
}

std::string identifier(std::string word) {
  std::ranges::replace(word, '.', '_');
  return is_taken(word) ? word + "_" : word;
}

// The C++ type of the handle of an argument.
std::string handle_type(std::string type) {
  if (type.ends_with('?')) type.pop_back();
  if (type == "Tensor") return "ops::TensorArgument";
  if (type.starts_with("Tensor") && type.ends_with(']')) return "ops::TensorsArgument";
  if (type == "str") return "ops::Argument<std::string>";
  if (type == "ScalarType") return "ops::Argument<DType>";
  if (type == "MemoryFormat" || type == "Layout" || type == "Device") return cat("ops::Argument<", type, ">");
  const std::string element = type.substr(0, type.find('['));
  static constexpr std::array<std::string_view, 5> kNumbers = {"int", "SymInt", "float", "bool", "Scalar"};
  if (std::ranges::find(kNumbers, element) == kNumbers.end()) return "ops::ArgumentPlace";
  return element == type ? "ops::NumberArgument" : "ops::NumbersArgument";
}

void print_handle(std::ostream& out, const ir::Op& op, std::string_view name, int32_t id) {
  const std::string handle = identifier(std::string(name));
  out << "// " << op.schema.text << "\n";
  out << "struct " << handle << " : ops::Handle<" << id << "> {\n";
  for (size_t i = 0; i < op.schema.args.size(); ++i) {
    const ir::SchemaArg& arg = op.schema.args[i];
    // A member cannot have the name of its class: aten.threshold has an argument `threshold`.
    const std::string member = identifier(arg.name) + (arg.name == handle ? "_" : "");
    out << "  static constexpr " << handle_type(arg.type) << " " << member << "{{" << i << "}};\n";
  }
  out << "};\n";
}

// Operators of npugraph stand in npugraph::own: a namespace npugraph::npugraph would hide the outer one.
std::string namespace_of(std::string_view prefix) { return prefix == "npugraph" ? "own" : std::string(prefix); }

void print_header(std::ostream& out) {
  std::map<std::string, std::vector<std::pair<std::string, int32_t>>> by_namespace;
  std::set<std::string> arguments;
  int32_t id = 0;
  for (const std::string_view name : table_names()) {
    const size_t dot = name.find('.');
    by_namespace[namespace_of(name.substr(0, dot))].emplace_back(name.substr(dot + 1), id++);
    for (const ir::SchemaArg& arg : require(name).schema.args) arguments.insert(arg.name);
  }
  out << "// Generated from the rows of ops/ by ops/generate. Do not edit.\n#pragma once\n\n#include "
         "\"ops/handle.h\"\n";
  for (const auto& [space, rows] : by_namespace) {
    out << "\nnamespace npugraph::" << space << " {\n";
    for (const auto& [name, row] : rows) print_handle(out, operator_of(row), name, row);
    out << "}  // namespace npugraph::" << space << "\n";
  }
  out << "\nnamespace npugraph::arg {\n";
  for (const std::string& name : arguments) {
    out << "inline constexpr ops::ArgumentName " << identifier(name) << "{\"" << name << "\"};\n";
  }
  out << "}  // namespace npugraph::arg\n";
}

}  // namespace
}  // namespace npugraph::ops

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw npugraph::UserError("usage: npugraph_operators FILE");
    std::ofstream file(argv[1]);
    npugraph::ops::print_header(file);
    if (!file.flush()) throw npugraph::UserError(npugraph::cat("cannot write '", argv[1], "'"));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "npugraph_operators: " << error.what() << "\n";
    return 1;
  }
}
