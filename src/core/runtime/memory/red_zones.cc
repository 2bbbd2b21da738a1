// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/red_zones.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "runtime/memory/overlap.h"

namespace npugraph::runtime {

using program::BufferClass;

namespace {

constexpr std::byte kPattern{0xa5};

bool is_changed(std::byte b) { return b != kPattern; }

using program::TaskKind;

bool is_kernel_of_user(const program::Task& task) { return task.kind == TaskKind::kKernel && !task.schema.empty(); }

bool is_operator_of_user(const program::Task& task) {
  return is_kernel_of_user(task) || task.kind == TaskKind::kPython || (task.kind == TaskKind::kAten && task.foreign);
}

// The bytes from the first element of a tensor to its last; empty without strided memory.
std::span<const std::byte> extent(const ng_buffer& buffer) {
  const int64_t size = size_of(static_cast<DType>(buffer.dtype));
  int64_t first = 0, last = 0;
  for (int32_t d = 0; d < buffer.rank; ++d) {
    if (buffer.sizes[d] == 0) return {};
    const int64_t step = (buffer.sizes[d] - 1) * buffer.strides[d];
    (step < 0 ? first : last) += step;
  }
  if (buffer.data == nullptr) return {};
  return {static_cast<const std::byte*>(buffer.data) + first * size, static_cast<size_t>((last - first + 1) * size)};
}

size_t hash_of(std::span<const std::byte> bytes) {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

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

std::string RedZones::words(int32_t task) const {
  const program::Task& of = blueprint_.program->tasks[task];
  return cat("task ", task, " (", of.name, of.source.empty() ? "" : " at ", of.source, ")");
}

void RedZones::note_reads(int32_t task) {
  const program::Task& of = blueprint_.program->tasks[task];
  reads_.clear();
  if (!is_operator_of_user(of)) return;
  std::vector<std::span<const std::byte>> written;
  const ng_buffer* buffers = instance_.steps()[task].call->buffers;
  for (size_t i = 0; i < of.operands.size(); ++i)
    if (of.operands[i].access != program::Access::kRead) written.push_back(extent(buffers[i]));
  for (size_t i = 0; i < of.operands.size(); ++i) {
    const program::Operand& operand = of.operands[i];
    if (operand.access != program::Access::kRead || blueprint_.program->buffers[operand.buffer].opaque) continue;
    const std::span<const std::byte> bytes = extent(buffers[i]);
    const bool is_written = std::ranges::any_of(written, [&](const auto& other) { return overlap(bytes, other); });
    if (!bytes.empty() && !is_written) reads_.push_back({static_cast<int32_t>(i), hash_of(bytes)});
  }
}

void RedZones::check_reads(int32_t task) const {
  const program::Task& of = blueprint_.program->tasks[task];
  for (const Read& read : reads_) {
    if (hash_of(extent(instance_.steps()[task].call->buffers[read.operand])) == read.hash) continue;
    const std::string& name = blueprint_.program->buffers[of.operands[read.operand].buffer].name;
    throw UserError(cat(words(task), " has changed its tensor ", read.operand, name.empty() ? "" : cat(" (", name, ")"),
                        ", which by its schema it only reads; Tensor(a!) marks an argument that an operator writes"));
  }
}

void RedZones::begin(int32_t task) {
  note_reads(task);
  for (const Piece& piece : pieces_) {
    std::byte* at = piece.first == task && bytes(piece) > 0 ? data(piece) : nullptr;
    if (at == nullptr) continue;
    std::fill_n(at - piece.zone, piece.zone, kPattern);
    std::fill_n(at + bytes(piece), piece.zone, kPattern);
  }
}

void RedZones::check(int32_t task) const {
  check_reads(task);
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
    const std::string what = cat(words(task), " has changed ", behind > 0 ? behind : before, " bytes ",
                                 behind > 0 ? "behind " : "before ", name(piece), key.empty() ? "" : ", for ", key);
    const bool is_operator =
        wrote.kind == TaskKind::kAten || wrote.kind == TaskKind::kPython || is_kernel_of_user(wrote);
    if (is_operator) throw UserError(cat(what, ": the operator writes beyond the memory that it was given"));
    throw InternalError(internal_error_text(what));
  }
}

}  // namespace npugraph::runtime
