// SPDX-License-Identifier: Apache-2.0
#include "libraries/library.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include <dlfcn.h>

#include "base/error.h"
#include "libraries/launch.h"
#include "libraries/parameters.h"
#include "ops/table.h"

namespace npugraph::libraries {
namespace {

// Never destroyed: Programs may look for kernels while the process ends.
struct Registry {
  std::shared_mutex mutex;
  std::map<const ng_library*, std::vector<std::unique_ptr<Kernel>>> libraries;
  std::map<std::string, const Kernel*, std::less<>> by_name;
  std::vector<const Kernel*> in_order;
  std::vector<std::unique_ptr<Kernel>> aliases;
};

Registry& registry() {
  static auto* made = new Registry;
  return *made;
}

const ng_library* open(const std::string& path) {
  // A name without a slash would be looked for in the system's folders.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw UserError(cat("the library '", path, "' cannot be loaded: ", dlerror()));
  const auto function = reinterpret_cast<ng_library_function>(dlsym(handle, NG_LIBRARY_FUNCTION));
  if (function == nullptr) {
    dlclose(handle);
    throw UserError(cat("'", path, "' is no library of kernels: it does not export ", NG_LIBRARY_FUNCTION,
                        ", which npugraph/kernel.h defines where NPUGRAPH_KERNEL is used"));
  }
  const ng_library* library = function();
  if (library == nullptr || library->num_kernels == 0) throw UserError(cat("the library '", path, "' has no kernels"));
  if (library->abi_version != NG_TASK_ABI_VERSION)
    throw UserError(cat("the library '", path, "' was built for version ", library->abi_version,
                        " of the task ABI, this npugraph has version ", NG_TASK_ABI_VERSION, "; build it again"));
  return library;
}

void refuse_own_operator(const ir::Schema& schema) {
  const ir::Op* known = ops::registry().find(schema.name);
  if (known != nullptr && known->id >= 0)
    throw UserError("npugraph has this operator itself; give yours a name of its own");
}

std::unique_ptr<Kernel> read(const ng_kernel& given, const std::string& path) {
  try {
    auto kernel = std::make_unique<Kernel>();
    kernel->schema = ops::parse_schema(given.schema);
    kernel->make = given.make;
    kernel->library = path;
    refuse_own_operator(kernel->schema);
    check_parameters(kernel->schema, given);
    kernel->launch = make_launch(*kernel);
    return kernel;
  } catch (const UserError& error) {
    throw UserError(cat("the kernel of ", given.schema, " in '", path, "': ", error.what()));
  }
}

std::vector<const Kernel*> kernels_of(const std::vector<std::unique_ptr<Kernel>>& owned) {
  std::vector<const Kernel*> kernels;
  for (const auto& kernel : owned) kernels.push_back(kernel.get());
  return kernels;
}

}  // namespace

std::vector<const Kernel*> load(const std::string& path) {
  const ng_library* library = open(path);
  Registry& all = registry();
  const std::unique_lock lock(all.mutex);
  if (const auto known = all.libraries.find(library); known != all.libraries.end()) return kernels_of(known->second);
  std::vector<std::unique_ptr<Kernel>> made;
  for (uint32_t i = 0; i < library->num_kernels; ++i) {
    made.push_back(read(library->kernels[i], path));
    const std::string& name = made.back()->schema.name;
    if (const auto other = all.by_name.find(name); other != all.by_name.end())
      throw UserError(cat("'", path, "' and '", other->second->library, "' both have a kernel of ", name));
    const auto twice = [&](const auto& kernel) { return kernel->schema.name == name; };
    if (std::ranges::count_if(made, twice) > 1) throw UserError(cat("'", path, "' has two kernels of ", name));
  }
  for (const auto& kernel : made) {
    all.by_name.emplace(kernel->schema.name, kernel.get());
    all.by_name.emplace(kernel->launch->schema.name, kernel->launch.get());
    all.in_order.push_back(kernel.get());
  }
  return kernels_of(all.libraries.emplace(library, std::move(made)).first->second);
}

const Kernel* find(std::string_view name) {
  Registry& all = registry();
  const std::shared_lock lock(all.mutex);
  const auto found = all.by_name.find(name);
  return found == all.by_name.end() ? nullptr : found->second;
}

std::string ir_name(std::string_view name) {
  constexpr std::string_view kFunctional = "_functional";
  std::string_view base = name.substr(name.find('.') + 1);
  base = base.substr(0, base.find('.'));
  if (base.ends_with(kFunctional)) base.remove_suffix(kFunctional.size());
  std::string type;
  bool begins_word = true;
  for (const char c : base) {
    if (c != '_') type += begins_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    begins_word = c == '_';
  }
  return type;
}

std::vector<const Kernel*> find_ir(std::string_view type) {
  Registry& all = registry();
  const std::shared_lock lock(all.mutex);
  std::vector<const Kernel*> found;
  for (const Kernel* kernel : all.in_order) {
    if (ir_name(kernel->schema.name) == type) found.push_back(kernel);
  }
  return found;
}

std::vector<const Kernel*> loaded() {
  Registry& all = registry();
  const std::shared_lock lock(all.mutex);
  return all.in_order;
}

const Kernel* add_alias(const std::string& schema, const Kernel& kernel) {
  auto alias = std::make_unique<Kernel>();
  alias->schema = ops::parse_schema(schema);
  const auto parameters = parameters_of(alias->schema);
  const bool gives_results = parameters == parameters_of(kernel.launch->schema);
  if (!gives_results && parameters != parameters_of(kernel.schema))
    throw UserError(cat("the kernel of ", kernel.schema.text, " in '", kernel.library, "' does not fit the schema ",
                        schema,
                        ": the types of arguments and results must be the same, and which arguments are written"));
  refuse_own_operator(alias->schema);
  alias->make = gives_results ? kernel.launch->make : kernel.make;
  alias->launches = gives_results ? &kernel : nullptr;
  alias->library = kernel.library;

  Registry& all = registry();
  const std::unique_lock lock(all.mutex);
  const auto [place, is_new] = all.by_name.emplace(alias->schema.name, alias.get());
  if (is_new) return all.aliases.emplace_back(std::move(alias)).get();
  const Kernel* known = place->second;
  if (known->make != alias->make || known->launches != alias->launches || !same(known->schema, alias->schema))
    throw UserError(cat("'", known->library, "' has another kernel of ", known->schema.name));
  return known;
}

bool same(const ir::Schema& x, const ir::Schema& y) {
  const auto same_argument = [](const ir::SchemaArg& a, const ir::SchemaArg& b) {
    return a.name == b.name && a.type == b.type && a.is_write == b.is_write;
  };
  const auto same_result = [](const ir::SchemaReturn& a, const ir::SchemaReturn& b) {
    return a.type == b.type && a.is_write == b.is_write;
  };
  return x.name == y.name && std::ranges::equal(x.args, y.args, same_argument) &&
         std::ranges::equal(x.returns, y.returns, same_result);
}

}  // namespace npugraph::libraries
