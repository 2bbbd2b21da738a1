// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/red_zones.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace npugraph::runtime {

using program::BufferClass;

namespace {

constexpr std::byte kPattern{0xa5};

bool is_changed(std::byte b) { return b != kPattern; }

}  // namespace

RedZones::RedZones(const Blueprint& blueprint, const Instance& instance, int64_t around_objects, bool results_are_kept)
    : blueprint_(blueprint), instance_(instance) {
  const program::Program& program = *blueprint.program;
  const auto tasks = static_cast<int32_t>(program.tasks.size());
  for (int32_t b = 0; b < static_cast<int32_t>(program.buffers.size()); ++b) {
    const program::Buffer& buffer = program.buffers[b];
    const bool is_result = buffer.cls == BufferClass::kOutput;
    if (buffer.opaque || buffer.first_task == program::kNone) continue;
    if (buffer.cls == BufferClass::kArena)
      pieces_.push_back({b, buffer.first_task, buffer.last_task});
    else if (buffer.cls == BufferClass::kConstant)
      pieces_.push_back({b, 0, tasks});
    else if ((is_result && !results_are_kept) || buffer.preallocated)
      pieces_.push_back({b, buffer.first_task, is_result ? tasks : buffer.last_task, around_objects});
  }
  for (int32_t t = 0; t < tasks; ++t) pieces_.push_back({program::kNone, t, t});
}

std::byte* RedZones::data(const Piece& piece) const {
  if (piece.buffer == program::kNone) return static_cast<std::byte*>(instance_.steps()[piece.first].call->workspace);
  return static_cast<std::byte*>(instance_.base(piece.buffer));
}

int64_t RedZones::bytes(const Piece& piece) const {
  if (piece.buffer == program::kNone) return instance_.workspace_bytes(piece.first);
  return instance_.sizes().bytes(piece.buffer);
}

std::string RedZones::name(const Piece& piece) const {
  if (piece.buffer == program::kNone) return cat("its workspace of ", bytes(piece), " bytes");
  const std::string& name = blueprint_.program->buffers[piece.buffer].name;
  return cat("buffer ", piece.buffer, name.empty() ? "" : cat(" (", name, ")"), " of ", bytes(piece), " bytes");
}

void RedZones::begin(int32_t task) const {
  for (const Piece& piece : pieces_) {
    std::byte* at = piece.first == task && bytes(piece) > 0 ? data(piece) : nullptr;
    if (at == nullptr) continue;
    std::fill_n(at - piece.zone, piece.zone, kPattern);
    std::fill_n(at + bytes(piece), piece.zone, kPattern);
  }
}

void RedZones::check(int32_t task) const {
  for (const Piece& piece : pieces_) {
    const bool lives = piece.first <= task && task <= piece.last && bytes(piece) > 0;
    const std::byte* at = lives ? data(piece) : nullptr;
    if (at == nullptr) continue;
    const std::byte* end = at + bytes(piece);
    const int64_t before = std::count_if(at - piece.zone, at, is_changed);
    const int64_t behind = std::count_if(end, end + piece.zone, is_changed);
    if (before == 0 && behind == 0) continue;
    const program::Task& wrote = blueprint_.program->tasks[task];
    const std::string key = key_text(blueprint_, instance_.sizes().symbols());
    const std::string what = cat("task ", task, " (", wrote.name, wrote.source.empty() ? "" : " at ", wrote.source,
                                 ") has changed ", behind > 0 ? behind : before, " bytes ",
                                 behind > 0 ? "behind " : "before ", name(piece), key.empty() ? "" : ", for ", key);
    using program::TaskKind;
    const bool is_operator = wrote.kind == TaskKind::kAten || wrote.kind == TaskKind::kPython;
    if (is_operator) throw UserError(cat(what, ": the operator writes beyond the memory that it was given"));
    throw InternalError(internal_error_text(what));
  }
}

}  // namespace npugraph::runtime
