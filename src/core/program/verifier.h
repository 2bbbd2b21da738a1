// SPDX-License-Identifier: Apache-2.0
// Types and functions that the parts of verify() share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "program/program.h"

namespace npugraph::program {

// The first broken rule; ends the verification.
struct Violation {
  std::string message;
};

template <typename T>
int32_t count(const std::vector<T>& list) {
  return static_cast<int32_t>(list.size());
}

template <typename T>
bool has(const std::vector<T>& list, int32_t index) {
  return index >= 0 && index < count(list);
}

// Base of the parts: knows where in the Program it is, for the message.
class Verifier {
 protected:
  explicit Verifier(const Program& program) : program_(program) {}

  void at(std::string_view what, int32_t index) { place_.assign(what).append(" ").append(std::to_string(index)); }

  template <typename... Args>
  [[noreturn]] void fail(const Args&... args) const {
    throw Violation{cat(place_, ": ", args...)};
  }

  const Program& program_;
  std::string place_;
};

// Checks what plan() fills in: segments, lives, releases, mutated inputs. Requires that every index of the tasks and
// the outputs has been checked. Throws a Violation.
void verify_plan(const Program& program);

// Checks that neither tasks nor the caller read elements of memory that the runtime places which no earlier task
// writes, where sizes are known; of other memory, that some earlier task writes it. What one task writes it may read
// itself. Requires what verify_plan() requires. Throws a Violation.
void verify_reads(const Program& program);

}  // namespace npugraph::program
