// SPDX-License-Identifier: Apache-2.0
#include "program/parts.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "base/error.h"
#include "program/program.h"

namespace npugraph::program {
namespace {

// Positions of the arguments before those of the parts. The lists have one entry per part, kCounts has kCountsOfPart.
// kHow is Parts::workers or Parts::nanoseconds.
enum Position : size_t { kScope, kHow, kKinds, kNames, kOrigins, kSources, kCounts, kParts };

// Numbers of a part in kCounts.
constexpr size_t kCountsOfPart = 2;  // operands, arguments

// Operand `i` of the parts together, and of which part it is.
struct Place {
  const Operand* operand;
  size_t part;
};

std::vector<Place> places_of(std::span<const Task> parts) {
  std::vector<Place> places;
  for (size_t p = 0; p < parts.size(); ++p) {
    for (const Operand& operand : parts[p].operands) places.push_back({&operand, p});
  }
  return places;
}

// Whether a Share of a part holds for the whole: no other part touches its buffers. Of a super kernel, an earlier part
// may touch the buffer of `read`, and a later one the buffer of `written`.
bool keeps_share(TaskKind kind, const std::vector<Place>& places, size_t part, const Share& share, const Task& task) {
  const int32_t read = task.operands[share.read].buffer, written = task.operands[share.written].buffer;
  const bool ordered = kind == TaskKind::kSuperKernel;
  return std::ranges::none_of(places, [&](const Place& other) {
    const bool later = ordered ? other.part > part : other.part != part;
    const bool earlier = ordered ? other.part < part : other.part != part;
    return (later && other.operand->buffer == read) || (earlier && other.operand->buffer == written);
  });
}

template <typename Value>
const Value& argument(const Task& task, size_t position) {
  const Value* value = position < task.args.size() ? std::get_if<Value>(&task.args[position]) : nullptr;
  if (value == nullptr) throw UserError(cat("task ", task.name, " has no parts: argument ", position));
  return *value;
}

[[noreturn]] void fail(const Task& task, std::string_view what) {
  throw UserError(cat("task ", task.name, " has no parts: ", what));
}

size_t count_at(const Task& task, size_t index, size_t most) {
  const auto count = argument<std::vector<Expr>>(task, kCounts)[index].as_int();
  if (!count || *count < 0 || *count > static_cast<int64_t>(most)) fail(task, "it has not that many operands");
  return static_cast<size_t>(*count);
}

bool may_be_part(TaskKind kind) { return (kind == TaskKind::kKernel || is_generated(kind)) && !has_parts(kind); }

TaskKind kind_of_part(const Task& task, const std::string& name) {
  const auto found = std::ranges::find(kTaskKindNames, name);
  const auto kind = static_cast<TaskKind>(found - kTaskKindNames.begin());
  if (found == kTaskKindNames.end() || !may_be_part(kind)) fail(task, cat("a part of kind \"", name, "\""));
  return kind;
}

// Checks that each list has one entry per part. Returns the number of parts.
size_t check_lists(const Task& task) {
  const size_t parts = argument<std::vector<std::string>>(task, kKinds).size();
  for (const size_t list : {kNames, kOrigins, kSources}) {
    if (argument<std::vector<std::string>>(task, list).size() != parts) fail(task, "lists of different lengths");
  }
  if (argument<std::vector<Expr>>(task, kCounts).size() != parts * kCountsOfPart) fail(task, "no count for each part");
  return parts;
}

// Index of the first operand, argument and scalar of the next part.
struct Cursor {
  size_t operand = 0;
  size_t arg = kParts;
  size_t scalar = 0;
};

// Copies the operands, arguments and scalars of part `p`, the next one, into `part`, and advances `at`.
void take_operands(const Task& task, size_t p, Cursor& at, Task& part) {
  const auto operands = count_at(task, p * kCountsOfPart, task.operands.size() - at.operand);
  const auto args = count_at(task, p * kCountsOfPart + 1, task.args.size() - at.arg);
  part.operands.assign(task.operands.begin() + at.operand, task.operands.begin() + at.operand + operands);
  for (size_t i = at.arg; i < at.arg + args; ++i) {
    Attr& arg = part.args.emplace_back(task.args[i]);
    for_each_tensor(arg, [&](TensorRef& ref) {
      ref.id -= static_cast<int32_t>(at.operand);
      if (ref.id < 0 || ref.id >= static_cast<int32_t>(operands)) fail(task, "a part names an operand of another one");
    });
    for_each_expr(std::as_const(arg), [&](const Expr& e) {
      if (e.is_constant()) return;
      if (at.scalar == task.scalars.size()) fail(task, "it has too few scalars");
      part.scalars.push_back(task.scalars[at.scalar++]);
    });
  }
  at.operand += operands;
  at.arg += args;
}

// Copies the arguments and operands of a part behind those of the parts before it.
void append(Task& merged, const Task& part, std::vector<Attr>& args) {
  const auto first = static_cast<int32_t>(merged.operands.size());
  for (Attr arg : part.args) {
    for_each_tensor(arg, [&](TensorRef& ref) { ref.id += first; });
    args.push_back(std::move(arg));
  }
  merged.waits.insert(merged.waits.end(), part.waits.begin(), part.waits.end());
  merged.operands.insert(merged.operands.end(), part.operands.begin(), part.operands.end());
  merged.scalars.insert(merged.scalars.end(), part.scalars.begin(), part.scalars.end());
  if (!part.origin.empty()) merged.origin += cat(merged.origin.empty() ? "" : ", ", part.origin);
  if (merged.source.empty()) merged.source = part.source;
}

Task merge(TaskKind kind, std::span<const Task> parts, std::string_view scope, Attr how) {
  Task merged{.kind = kind,
              .name = cat(name_of(kind), ".", scope),
              .stream = parts.front().stream,
              .limits = parts.front().limits};
  std::vector<std::string> kinds, names, origins, sources;
  std::vector<Expr> counts;
  std::vector<Attr> args;
  const std::vector<Place> places = places_of(parts);
  for (size_t p = 0; p < parts.size(); ++p) {
    const Task& part = parts[p];
    kinds.emplace_back(name_of(part.kind));
    names.push_back(part.name);
    origins.push_back(part.origin);
    sources.push_back(part.source);
    counts.insert(counts.end(), {Expr(std::ssize(part.operands)), Expr(std::ssize(part.args))});
    const auto first = static_cast<int32_t>(merged.operands.size());
    for (const Share& share : part.may_share) {
      if (keeps_share(kind, places, p, share, part))
        merged.may_share.push_back({share.written + first, share.read + first});
    }
    append(merged, part, args);
  }
  merged.args = {std::string(scope), std::move(how), kinds, names, origins, sources, counts};
  merged.args.insert(merged.args.end(), args.begin(), args.end());
  return merged;
}

// Reads argument kHow.
void take_how(const Task& task, size_t parts, Parts& made) {
  if (task.kind == TaskKind::kSuperKernel) {
    const auto workers = argument<Expr>(task, kHow).as_int();
    if (!workers || *workers < 0) fail(task, "it has no number of workers");
    made.workers = *workers;
    return;
  }
  for (const Expr& time : argument<std::vector<Expr>>(task, kHow)) {
    if (!time.as_int() || *time.as_int() < 0) fail(task, "a time that is no number");
    made.nanoseconds.push_back(*time.as_int());
  }
  if (made.nanoseconds.size() != parts) fail(task, "no time for each part");
}

}  // namespace

bool can_be_part(const Task& task) { return may_be_part(task.kind) && task.defines.empty(); }

std::string label_of(std::span<const Task> tasks) {
  std::vector<std::pair<std::string_view, int64_t>> counts;
  for (const Task& task : tasks) {
    const auto same = std::ranges::find(counts, std::string_view(task.name), [](const auto& c) { return c.first; });
    if (same == counts.end())
      counts.emplace_back(task.name, 1);
    else
      ++same->second;
  }
  std::string label;
  for (const auto& [name, count] : counts)
    label += cat(label.empty() ? "" : ".", count == 1 ? "" : cat(count, "x_"), name);
  return label;
}

Task super_kernel(std::span<const Task> parts, std::string_view scope, int64_t workers) {
  return merge(TaskKind::kSuperKernel, parts, scope, Expr(workers));
}

Task group(std::span<const Task> parts, const std::vector<int64_t>& nanoseconds) {
  return merge(TaskKind::kGroup, parts, label_of(parts), std::vector<Expr>(nanoseconds.begin(), nanoseconds.end()));
}

Parts parts_of(const Task& task) {
  Parts made;
  argument<std::string>(task, kScope);
  const size_t parts = check_lists(task);
  take_how(task, parts, made);
  Cursor at;
  for (size_t p = 0; p < parts; ++p) {
    Task& part = made.tasks.emplace_back();
    part.kind = kind_of_part(task, argument<std::vector<std::string>>(task, kKinds)[p]);
    part.name = argument<std::vector<std::string>>(task, kNames)[p];
    part.origin = argument<std::vector<std::string>>(task, kOrigins)[p];
    part.source = argument<std::vector<std::string>>(task, kSources)[p];
    take_operands(task, p, at, part);
  }
  if (at.operand != task.operands.size() || at.arg != task.args.size()) fail(task, "more operands than its parts have");
  return made;
}

Steps steps_of(const Program& program) {
  Steps steps;
  steps.of_buffer.resize(program.buffers.size(), {.first = kNone, .last = kNone});
  int32_t now = 0;
  const auto touch = [&](const Task& task) {
    for (const Operand& operand : task.operands) {
      Lifetime& life = steps.of_buffer[operand.buffer];
      if (life.first == kNone) life.first = now;
      life.last = now;
    }
    ++now;
  };
  for (const Task& task : program.tasks) {
    const int32_t begin = now;
    if (task.kind == TaskKind::kSuperKernel) {
      std::ranges::for_each(parts_of(task).tasks, touch);
    } else {
      touch(task);
    }
    steps.of_task.push_back({.first = begin, .last = now - 1});
  }
  // A buffer outlives the last task that touches it if it is returned, or if tasks of other streams may run beside it.
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.last_task == kNone) continue;
    const auto touches = [&](const Operand& operand) { return operand.buffer == static_cast<int32_t>(b); };
    if (std::ranges::none_of(program.tasks[buffer.last_task].operands, touches))
      steps.of_buffer[b].last = steps.of_task[buffer.last_task].last;
  }
  return steps;
}

}  // namespace npugraph::program
