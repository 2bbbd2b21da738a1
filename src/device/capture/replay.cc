// SPDX-License-Identifier: Apache-2.0
#include "device/capture/replay.h"

#include <algorithm>
#include <optional>
#include <string>

#include "backend/bridge/convert.h"
#include "backend/bridge/run_result.h"
#include "base/error.h"
#include "device/npu/operators.h"
#include "ops/table.h"

namespace npugraph::capture {
namespace {

std::string place_in(const program::Program& program, std::optional<int32_t> number) {
  if (!number) return cat("in ", program.name, " of a captured graph");
  const program::Task& task = program.tasks[*number];
  const std::string& source = task.source.empty() ? task.origin : task.source;
  return cat("in ", task.name, source.empty() ? "" : cat(" (", source, ")"), ", task ", *number + 1, " of ",
             program.tasks.size(), " of ", program.name, " in a captured graph");
}

}  // namespace

void check_replay(const runtime::RunResult& result, const program::Program& program) {
  with_place([&] { bridge::check_run(result, program); }, [&] { return place_in(program, result.task); });
}

namespace {

// Bytes of operands that one thread reads and writes about as soon as two threads have begun.
constexpr int64_t kFewBytes = 128 << 10;

// INT64_MAX if they are not known.
int64_t bytes_of(const program::Operand& operand, std::span<const int64_t> of_buffers) {
  int64_t bytes = size_of(operand.dtype);
  for (const program::Dim& size : operand.sizes) {
    if (!size.is_constant()) return of_buffers.empty() ? INT64_MAX : of_buffers[operand.buffer];
    bytes *= size.constant;
  }
  return bytes;
}

bool has_few_bytes(const program::Task& task, std::span<const int64_t> of_buffers) {
  int64_t left = kFewBytes;
  for (const program::Operand& operand : task.operands) {
    const int64_t bytes = bytes_of(operand, of_buffers);
    if (bytes > left) return false;
    left -= bytes;
  }
  return true;
}

// The operator of a task, which may be its variant that writes into memory: "aten.cat.out" of "aten.cat".
const ir::Op* operator_of(const program::Task& task) {
  const std::string base = task.name.substr(0, task.name.rfind('.'));
  for (const std::string& name : {task.name, base, base + ".Tensor"})
    if (const ir::Op* op = ops::registry().find(name)) return op;
  return nullptr;
}

// Whether the task calls an operator of Ascend whose kernel takes the threads of the pool.
bool calls_pool_operator(const program::Task& task) {
  const auto op = bridge::find_operator(task.name);
  const npu::Operator* row = op ? npu::find_operator(*op) : nullptr;
  return row != nullptr && row->traits.in_pool;
}

// Of the operators of torch, creations, and elementwise ones and copies with small operands: no other result is the
// same bits for any number of threads.
bool is_light(const program::Task& task, std::span<const int64_t> of_buffers) {
  if (task.kind != program::TaskKind::kAten) return false;
  if (calls_pool_operator(task)) return true;
  if (task.foreign) return false;
  const ir::Op* op = operator_of(task);
  if (op == nullptr) return false;
  if (op->is(ir::Trait::kCreation)) return true;
  return (op->is(ir::Trait::kElementwise) || op->is(ir::Trait::kCopyLike)) && has_few_bytes(task, of_buffers);
}

}  // namespace

bool runs_in_pool_alone(const program::Program& program, std::span<const int64_t> bytes) {
  return std::ranges::all_of(program.tasks, [&](const program::Task& task) {
    return !program::has(task.kind, program::KindTrait::kOfHost) || is_light(task, bytes);
  });
}

}  // namespace npugraph::capture
