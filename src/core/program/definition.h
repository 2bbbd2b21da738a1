// SPDX-License-Identifier: Apache-2.0
// The definition of a task, as the task ABI passes it to the maker of the task.
#pragma once

#include <vector>

#include "abi/task.h"
#include "program/program.h"

namespace npugraph::program {

// The definition of a task, which must outlive this.
class Definition {
 public:
  explicit Definition(const Task& task);
  Definition(const Definition&) = delete;
  Definition& operator=(const Definition&) = delete;

  const ng_definition& get() const { return definition_; }

 private:
  void add(const Attr& attr);

  std::vector<ng_operand> operands_;
  std::vector<std::vector<ng_value>> values_;  // of each attribute
  std::vector<ng_attribute> attributes_;
  ng_definition definition_{};
  int32_t scalars_ = 0;  // arguments so far whose values come with each call
};

// Returns the task that `make` makes. UserError with the message of `make` if it refuses.
ng_task make_task(ng_make make, const Task& task);

}  // namespace npugraph::program
