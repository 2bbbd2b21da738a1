// SPDX-License-Identifier: Apache-2.0
// The kinds of tasks. A kind is one row of kTaskKinds, and a maker in the processes that run its tasks
// (runtime/task_makers.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace npugraph::program {

enum class TaskKind : uint8_t {
  kKernel,
  kAten,
  kPython,
  kCollective,
  kLoop,
  kMatmul,
  kAttention,
  kConvolution,
  kSuperKernel,  // several generated tasks and kernels, see parts.h
  kNested,       // runs other Programs of the host; which ones, and how often, depends on values of the run
  kGroup,        // several generated tasks that do not depend on each other, see parts.h
};

enum class KindTrait : uint8_t {
  // Its first argument is the text from which each machine generates the code; the others are its scalars. A super
  // kernel or a group has the arguments of its parts instead.
  kGenerated = 1 << 0,
  kOfHost = 1 << 1,    // runs on the host's objects
  kCallable = 1 << 2,  // Task::callable says what the host runs
  // An Instance may bind such a task again when its scalars change: nothing that was planned depends on them.
  kRebindable = 1 << 3,
  kProduct = 1 << 4,  // counts against CoreLimits::cube
};

constexpr uint8_t operator|(KindTrait a, KindTrait b) { return static_cast<uint8_t>(a) | static_cast<uint8_t>(b); }
constexpr uint8_t operator|(uint8_t a, KindTrait b) { return a | static_cast<uint8_t>(b); }

struct TaskKindRow {
  std::string_view name;  // in texts and reports
  uint8_t traits = 0;     // of KindTrait
};

// In the order of TaskKind.
inline constexpr auto kTaskKinds = std::to_array<TaskKindRow>({
    {"kernel"},
    {"aten", KindTrait::kOfHost | KindTrait::kRebindable},
    {"python", KindTrait::kOfHost | KindTrait::kRebindable | KindTrait::kCallable},
    {"collective", static_cast<uint8_t>(KindTrait::kOfHost)},
    {"loop", static_cast<uint8_t>(KindTrait::kGenerated)},
    {"matmul", KindTrait::kGenerated | KindTrait::kProduct},
    {"attention", KindTrait::kGenerated | KindTrait::kProduct},
    {"convolution", KindTrait::kGenerated | KindTrait::kProduct},
    {"super_kernel", static_cast<uint8_t>(KindTrait::kGenerated)},
    {"nested", KindTrait::kOfHost | KindTrait::kRebindable | KindTrait::kCallable},
    {"group", static_cast<uint8_t>(KindTrait::kGenerated)},
});

inline constexpr std::array<std::string_view, kTaskKinds.size()> kTaskKindNames = [] {
  std::array<std::string_view, kTaskKinds.size()> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kTaskKinds[i].name;
  return names;
}();

constexpr std::string_view name_of(TaskKind kind) { return kTaskKinds[static_cast<size_t>(kind)].name; }
constexpr bool has(TaskKind kind, KindTrait trait) {
  return (kTaskKinds[static_cast<size_t>(kind)].traits & static_cast<uint8_t>(trait)) != 0;
}
constexpr bool is_generated(TaskKind kind) { return has(kind, KindTrait::kGenerated); }
constexpr bool is_callable(TaskKind kind) { return has(kind, KindTrait::kCallable); }

}  // namespace npugraph::program
