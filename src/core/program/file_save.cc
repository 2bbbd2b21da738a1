// SPDX-License-Identifier: Apache-2.0
#include "abi/task.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "program/file.h"
#include "program/file_format.h"
#include "program/text.h"
#include "tensor/lexer.h"

namespace npugraph::program {
namespace {

std::span<const std::byte> bytes_of(const void* data, size_t size) {
  return {static_cast<const std::byte*>(data), size};
}

void write_padded(AtomicFile& file, std::span<const std::byte> data) {
  static constexpr std::array<std::byte, kFileAlignment> kZeros = {};
  file.write(data);
  file.write(std::span(kZeros).first(padding_after(data.size())));
}

void require_savable(const Program& program, const std::string& path) {
  const std::string obstacle = why_not_portable(program);
  if (!obstacle.empty()) throw UserError(cat("cannot save the Program to ", path, ": ", obstacle));
  const std::string violation = verify(program);
  NG_CHECK(violation.empty(), "saving ", program.name, ": ", violation);
  for (const Constant& constant : program.constants) {
    if (constant.bytes == 0 || constant.data != nullptr) continue;
    throw UserError(
        cat("cannot save the Program to ", path, ": the bytes of constant '", constant.name, "' are not loaded"));
  }
}

}  // namespace

void save(const Program& program, const Metadata& metadata, const std::string& path) {
  require_savable(program, path);

  FileHeader header;
  std::string text;
  Metadata facts = metadata;
  facts[kAbiKey] = std::to_string(NG_TASK_ABI_VERSION);
  for (const auto& [key, value] : facts) text += cat(quote(key), " ", quote(value), "\n");
  header.metadata_bytes = text.size();
  text += print(program);
  header.text_bytes = text.size() - header.metadata_bytes;

  header.file_bytes = sizeof header + text.size() + padding_after(text.size());
  for (const Constant& constant : program.constants)
    header.file_bytes += constant.bytes + padding_after(constant.bytes);

  Checksum checksum;
  checksum.add(bytes_of(&header, sizeof header));
  checksum.add(bytes_of(text.data(), text.size()));
  for (const Constant& constant : program.constants) checksum.add(bytes_of(constant.data, constant.bytes));
  header.checksum = checksum.value();

  AtomicFile file(path, "the Program", AtomicFile::Readers::kShared);
  write_padded(file, bytes_of(&header, sizeof header));
  write_padded(file, bytes_of(text.data(), text.size()));
  for (const Constant& constant : program.constants) write_padded(file, bytes_of(constant.data, constant.bytes));
  file.commit();
}

}  // namespace npugraph::program
