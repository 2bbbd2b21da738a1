// SPDX-License-Identifier: Apache-2.0
#include "libraries/launch.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/words.h"
#include "ops/table.h"

namespace npugraph::libraries {
namespace {

constexpr std::string_view kNamespace = "npugraph_kernels";

std::string launch_name(std::string_view name) {
  const size_t dot = name.find('.');
  return cat(kNamespace, "::", name.substr(0, dot), "__", name.substr(dot + 1));
}

size_t new_results(const ir::Schema& schema) {
  return static_cast<size_t>(
      std::ranges::count_if(schema.returns, [](const auto& result) { return !result.is_write; }));
}

// The text between the parentheses of the arguments.
std::string_view arguments_of(std::string_view text) {
  const size_t begin = text.find('(') + 1;
  return text.substr(begin, text.rfind(')', text.rfind("->")) - begin);
}

// Makes the task of the kernel from the definition of a launch: the last arguments become results.
ng_status make_launched(const ng_definition* given, ng_task* task, void (*refuse)(void* reason, const char* message),
                        void* reason) {
  const Kernel& kernel = *find(given->name)->launches;
  const size_t results = new_results(kernel.schema);
  std::vector<ng_operand> operands(given->operands, given->operands + given->num_operands);
  for (size_t i = operands.size() - results; i < operands.size(); ++i) operands[i].access = NG_WRITE;
  ng_definition definition = *given;
  definition.name = kernel.schema.name.c_str();
  definition.operands = operands.data();
  definition.num_attributes -= static_cast<uint32_t>(results);
  return kernel.make(&definition, task, refuse, reason);
}

std::string names_of(const std::vector<const Kernel*>& kernels) {
  std::string names;
  for (const Kernel* kernel : kernels) names += cat(names.empty() ? "" : ", ", kernel->schema.name);
  return names;
}

std::string loaded_names() {
  const auto all = loaded();
  return all.empty() ? "none is loaded" : cat("loaded are those of ", names_of(all));
}

// "ScaledAdd" -> "scaled_add".
std::string operator_name(std::string_view type) {
  std::string name;
  for (const char c : type) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isupper(letter) != 0 && !name.empty()) name += '_';
    name += static_cast<char>(std::tolower(letter));
  }
  return name;
}

bool writes_argument(const Kernel* kernel) {
  return std::ranges::any_of(kernel->schema.args, [](const ir::SchemaArg& arg) { return arg.is_write; });
}

std::vector<const Kernel*> candidates(std::string_view name) {
  if (const size_t colons = name.find("::"); colons != name.npos) {
    const Kernel* kernel = find(cat(name.substr(0, colons), ".", name.substr(colons + 2)));
    if (kernel != nullptr && kernel->launch != nullptr) return {kernel};
    throw UserError(cat("no library that is loaded has a kernel of ", name,
                        "; npugraph.load_library(PATH) loads one. Of kernels ", loaded_names()));
  }
  constexpr std::string_view kFunction = "aclnn";
  constexpr std::string_view kInplace = "Inplace";
  std::string_view type = name;
  if (type.starts_with(kFunction)) type.remove_prefix(kFunction.size());
  auto found = find_ir(type);
  if (found.empty() && type.starts_with(kInplace)) {
    type.remove_prefix(kInplace.size());
    found = find_ir(type);
    std::erase_if(found, [](const Kernel* kernel) { return !writes_argument(kernel); });
  }
  if (found.empty())
    throw UserError(cat(name, " is the kernel of an operator NAMESPACE::", operator_name(type),
                        ", and no library that is loaded has it; npugraph.load_library(PATH) loads one. Of kernels ",
                        loaded_names()));
  return found;
}

}  // namespace

std::unique_ptr<const Kernel> make_launch(const Kernel& kernel) {
  const size_t results = new_results(kernel.schema);
  std::string arguments(arguments_of(kernel.schema.text));
  for (size_t i = 0; i < results; ++i) {
    const std::string name = cat("result", i);
    arguments += cat(arguments.empty() ? "" : ", ", "Tensor(", name, "!) ", name);
  }
  auto launch = std::make_unique<Kernel>();
  launch->schema = ops::parse_schema(cat(launch_name(kernel.schema.name), "(", arguments, ") -> ()"));
  launch->make = results == 0 ? kernel.make : &make_launched;
  launch->library = kernel.library;
  launch->launches = &kernel;
  return launch;
}

const Kernel& find_launched(std::string_view name, size_t count) {
  const auto named = candidates(name);
  std::vector<const Kernel*> fitting;
  for (const Kernel* kernel : named)
    if (kernel->launch->schema.args.size() == count) fitting.push_back(kernel);
  if (fitting.size() == 1) return *fitting.front();
  if (fitting.empty())
    throw UserError(cat(name, " was given ", counted(count, "argument"), "; the kernel of ", named.front()->schema.text,
                        " takes ", named.front()->launch->schema.args.size(),
                        ": those of the schema, and behind them a tensor for each new result"));
  throw UserError(cat(name, " may be the kernel of each of ", names_of(fitting), "; npugraph::run_kernel(\"",
                      "NAMESPACE::NAME\", ...) of npugraph/torch.h takes the name of the operator instead"));
}

}  // namespace npugraph::libraries
