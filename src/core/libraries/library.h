// SPDX-License-Identifier: Apache-2.0
// Libraries of users: kernels of operators, written against abi/kernel.h or against the task ABI itself. A loaded
// library stays loaded until the process ends, because Programs hold its functions. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "abi/library.h"
#include "ir/op.h"

namespace npugraph::libraries {

struct Kernel {
  ir::Schema schema;  // of its operator
  ng_make make = nullptr;
  std::string library;  // the path from which it was loaded
  // The form in which EXEC_NPU_CMD calls the kernel (launch.h); null if this is that form, or an alias.
  std::unique_ptr<const Kernel> launch;
  const Kernel* launches = nullptr;  // in that form, and in its aliases: the kernel
};

// Loads a library and returns its kernels; those that it has already if it was loaded before. UserError if the file
// cannot be loaded or is not such a library, if it was built for another version of the task ABI, if a kernel does not
// fit its schema, or if another library or npugraph itself has the same operator. Nothing is added then.
std::vector<const Kernel*> load(const std::string& path);

// How users load one, for errors about kernels that are not there.
inline constexpr std::string_view kHowToLoad =
    "npugraph.load_library(PATH), or the option --library PATH of npugraph-run, loads one";

// The kernel of the operator of this name ("ns.name", "ns.name.overload"); null if there is none.
const Kernel* find(std::string_view name);

// The name of an operator in Ascend IR, where two words have no underline between them: "my_ops.scaled_add_" and
// "my_ops.scaled_add_functional" are both "ScaledAdd".
std::string ir_name(std::string_view name);
// The kernels whose operators have this name in Ascend IR, in the order in which they were loaded.
std::vector<const Kernel*> find_ir(std::string_view type);

// All kernels of libraries, in the order in which they were loaded.
std::vector<const Kernel*> loaded();

// Gives a loaded kernel a second operator, which has this schema: the same parameters, under any names. It may take the
// new results of the kernel as written arguments. Programs that use the second operator need this call before they run,
// too. Again with the same schema, it returns the same. UserError if the kernel does not fit the schema, or if another
// library or npugraph itself has the operator.
const Kernel* add_alias(const std::string& schema, const Kernel& kernel);

// Whether the arguments and results of two schemas are the same: types, names, and which arguments are written.
bool same(const ir::Schema& x, const ir::Schema& y);

}  // namespace npugraph::libraries
