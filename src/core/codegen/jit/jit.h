// SPDX-License-Identifier: Apache-2.0
// Machine code from LLVM modules, in this process. No IR passes run: the emitters themselves write the vector code that
// they want. Everything here is thread-safe; modules may be compiled at the same time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "target/target.h"

namespace npugraph::codegen {

struct IrModule;

// Functions loaded into memory, which is freed with this object.
class MachineCode {
 public:
  virtual ~MachineCode() = default;
  // The address of an external function of the module; InternalError if there is none of this name.
  virtual void* address(std::string_view name) const = 0;
  // The object file that was loaded; load_object() takes it, also in another process.
  std::span<const char> object() const { return object_; }

  template <typename Function>
  Function* function(std::string_view name) const {
    return reinterpret_cast<Function*>(address(name));
  }

 protected:
  explicit MachineCode(std::vector<char> object) : object_(std::move(object)) {}
  std::vector<char> object_;
};

// Compiles and loads the external functions of a module. They may call memcpy, memmove, memset and the functions of
// libm; any other undefined name is an InternalError. Debug builds verify the IR first.
std::shared_ptr<const MachineCode> compile(IrModule ir, const target::Target& target);

// Loads an object file that MachineCode::object() gave.
std::shared_ptr<const MachineCode> load_object(std::vector<char> object);

// Whether this process may make memory executable, which some systems forbid. Takes microseconds.
bool may_load_code();

// The assembly text of a module, for people.
std::string assembly(IrModule ir, const target::Target& target);

}  // namespace npugraph::codegen
