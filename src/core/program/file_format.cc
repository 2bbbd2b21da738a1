// SPDX-License-Identifier: Apache-2.0
#include "program/file_format.h"

#include <cstring>

#include "base/error.h"

namespace npugraph::program {
namespace {

// Bijective in `word` for a fixed state and in `state` for a fixed word, so that a difference is never lost.
uint64_t mix(uint64_t state, uint64_t word) { return std::rotl((state ^ word) * 0x9e3779b97f4a7c15u, 29); }

}  // namespace

void Checksum::add_block(const std::byte* block) {
  std::array<uint64_t, kFileAlignment / sizeof(uint64_t)> words;
  std::memcpy(words.data(), block, kFileAlignment);
  for (size_t i = 0; i < words.size(); ++i)
    strands_[i % strands_.size()] = mix(strands_[i % strands_.size()], words[i]);
}

void Checksum::add(std::span<const std::byte> data) {
  size_t i = 0;
  for (; i + kFileAlignment <= data.size(); i += kFileAlignment) add_block(&data[i]);
  if (i == data.size()) return;
  std::array<std::byte, kFileAlignment> last = {};
  std::memcpy(last.data(), &data[i], data.size() - i);
  add_block(last.data());
}

uint64_t Checksum::value() const {
  uint64_t value = 0;
  for (const uint64_t strand : strands_) value = mix(value, strand);
  return value;
}

std::string why_not_portable(const Program& program) {
  for (const Buffer& buffer : program.buffers) {
    if (buffer.cls == BufferClass::kConstant && buffer.opaque) {
      return cat("constant '", program.constants[buffer.source].name, "' is not strided memory");
    }
  }
  for (size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& task = program.tasks[i];
    const bool records = task.name == kEventTask;
    if (!is_callable(task.kind) && !records) continue;
    const char* what = records                          ? "' records an event of this process"
                       : task.kind == TaskKind::kPython ? "' calls Python"
                                                        : "' runs graphs of this process";
    return cat("task ", i, " '", task.name, what, task.origin.empty() ? "" : ", for node ", task.origin,
               task.source.empty() ? "" : " at ", task.source);
  }
  return {};
}

}  // namespace npugraph::program
