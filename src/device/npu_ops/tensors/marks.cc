// SPDX-License-Identifier: Apache-2.0
// Operators that mark places in graphs. torch_npu tells torch.fx to keep them.
#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {
namespace {

constexpr const char* kBlanks = " \t\n\v\f\r";

void check_name(const char* op, std::optional<c10::string_view> scope_name) {
  TORCH_CHECK(!scope_name || scope_name->find_first_not_of(kBlanks) != scope_name->npos, op, ": scope_name is ",
              scope_name->empty() ? "empty" : "blank", ", allowed is a name, or None for a scope that needs none");
}

void begin(std::optional<c10::string_view> scope_name) { check_name("super_kernel_scope_begin", scope_name); }

void end(std::optional<c10::string_view> scope_name) { check_name("super_kernel_scope_end", scope_name); }

}  // namespace

void define_marks(OperatorLibrary& library) {
  library.add({
      .schema = "npu::super_kernel_scope_begin(str? scope_name=None) -> ()",
      .kernel = mark(&begin),
      .traits = {.has_effect = true},
      .definition = "Marks where a super kernel scope begins in a graph, and computes nothing. With the option "
                    "super_kernel_optimize of the backend npugraph_ex, adjacent tasks from here to the "
                    "super_kernel_scope_end of the same scope_name become one task; without the option the mark has no "
                    "effect. A scope without a name keeps its tasks out of the scope around it. scope_name must not be "
                    "blank.",
  });
  library.add({
      .schema = "npu::super_kernel_scope_end(str? scope_name=None) -> ()",
      .kernel = mark(&end),
      .traits = {.has_effect = true},
      .definition = "Marks where the scope ends that super_kernel_scope_begin began with the same scope_name.",
  });
}

}  // namespace npugraph::npu_ops
