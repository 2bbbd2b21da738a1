// SPDX-License-Identifier: Apache-2.0
// Operators that mark places in graphs. torch_npu tells torch.fx to keep them.
#include "torch/npu_ops/families.h"
#include "torch/npu_ops/framework/checks.h"

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
      .definition = "Marks where a scope of fused kernels begins; the host fuses without it",
  });
  library.add({
      .schema = "npu::super_kernel_scope_end(str? scope_name=None) -> ()",
      .kernel = mark(&end),
      .definition = "Marks where a scope of fused kernels ends",
  });
}

}  // namespace npugraph::npu_ops
