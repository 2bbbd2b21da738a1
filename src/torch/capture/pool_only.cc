// SPDX-License-Identifier: Apache-2.0
#include "torch/capture/pool_only.h"

#include <algorithm>

#include "ops/table.h"
#include "torch/npu/pool_operators.h"

namespace npugraph::capture {
namespace {

// Bytes of operands that one thread reads and writes about as soon as two threads have begun.
constexpr int64_t kFewBytes = 128 << 10;

bool has_few_bytes(const program::Task& task) {
  int64_t bytes = 0;
  for (const program::Operand& operand : task.operands) {
    int64_t elements = 1;
    for (const program::Dim& size : operand.sizes) {
      if (!size.is_constant()) return false;
      elements *= size.constant;
    }
    bytes += elements * size_of(operand.dtype);
  }
  return bytes <= kFewBytes;
}

// Of the operators of torch, creations, and elementwise ones with small operands: no other result is the same bits for
// any number of threads.
bool is_light(const program::Task& task) {
  if (task.kind != program::TaskKind::kAten) return false;
  if (npu::is_pool_operator(task.name)) return true;
  if (task.foreign) return false;
  const ir::Op* op = ops::registry().find(task.name);
  return op != nullptr && (op->is(ir::Trait::kCreation) || (op->is(ir::Trait::kElementwise) && has_few_bytes(task)));
}

}  // namespace

bool runs_in_pool_alone(const program::Program& program) {
  return std::ranges::all_of(program.tasks, [](const program::Task& task) {
    return !program::has(task.kind, program::KindTrait::kOfHost) || is_light(task);
  });
}

}  // namespace npugraph::capture
