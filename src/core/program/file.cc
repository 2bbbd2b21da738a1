// SPDX-License-Identifier: Apache-2.0
#include "program/file.h"

#include <cstring>
#include <string_view>

#include "abi/task.h"
#include "base/error.h"
#include "base/files.h"
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

namespace {

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  Loaded load(const Metadata& running) {
    map();
    check_header();
    Loaded loaded;
    loaded.metadata = parse_metadata();
    check_fact(loaded.metadata, kAbiKey, std::to_string(NG_TASK_ABI_VERSION));
    for (const auto& [key, value] : running) check_fact(loaded.metadata, key, value);
    loaded.program = parse(section(sizeof(FileHeader) + header_.metadata_bytes, header_.text_bytes), path_);
    const std::string obstacle = why_not_portable(loaded.program);
    if (!obstacle.empty()) fail(obstacle);
    bind_constants(loaded.program);
    return loaded;
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(const Args&... args) const {
    throw UserError(cat("cannot load a Program from ", path_, ": ", args...));
  }

  void map();
  void check_header();
  Metadata parse_metadata() const;
  void check_fact(const Metadata& metadata, const std::string& key, const std::string& running) const;
  void bind_constants(Program& program) const;
  std::string_view section(uint64_t begin, uint64_t size) const {
    return {static_cast<const char*>(file_.memory.get()) + begin, size};
  }

  std::string path_;
  FileHeader header_;
  MappedFile file_;  // a caller may write to a constant that the Program returned to it: the mapping is private
};

void Reader::map() {
  try {
    file_ = map_file(path_);
  } catch (const UserError& error) {
    fail(error.what());
  }
  if (!file_.distrust.empty()) fail(file_.distrust);
  if (file_.size < sizeof header_) fail("it is not a saved Program");
}

void Reader::check_header() {
  std::memcpy(&header_, file_.memory.get(), sizeof header_);
  if (header_.magic != kFileMagic) fail("it is not a saved Program");
  if (header_.version != kFileVersion)
    fail("it has version ", header_.version, "; this build reads version ", kFileVersion);
  if (header_.file_bytes != file_.size)
    fail("it is damaged: ", file_.size, " bytes where there should be ", header_.file_bytes);

  const uint64_t rest = file_.size - sizeof header_;
  const bool fits = header_.metadata_bytes <= rest && header_.text_bytes <= rest - header_.metadata_bytes;
  FileHeader without_sum = header_;
  without_sum.checksum = 0;
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(&without_sum, 1)));
  checksum.add(std::as_bytes(std::span(section(sizeof header_, rest))));
  if (!fits || checksum.value() != header_.checksum) fail("it is damaged: the checksum does not match");
}

Metadata Reader::parse_metadata() const {
  Metadata metadata;
  Lexer lexer(section(sizeof header_, header_.metadata_bytes), path_);
  while (lexer.peek().kind != TokenKind::kEnd) {
    std::string key = lexer.expect_string("a key");
    metadata[std::move(key)] = lexer.expect_string("a value");
  }
  return metadata;
}

void Reader::check_fact(const Metadata& metadata, const std::string& key, const std::string& running) const {
  const auto made = metadata.find(key);
  if (made == metadata.end()) fail("it does not say with which ", key, " it was made");
  if (made->second != running) fail("it was made with ", key, " ", made->second, "; this process has ", running);
}

void Reader::bind_constants(Program& program) const {
  uint64_t begin = sizeof header_ + header_.metadata_bytes + header_.text_bytes;
  begin += padding_after(begin);
  for (Constant& constant : program.constants) {
    const auto bytes = static_cast<uint64_t>(constant.bytes);
    if (begin > file_.size || bytes > file_.size - begin)
      fail("constant '", constant.name, "' lies outside of the file");
    constant.data = section(begin, bytes).data();
    constant.owner = file_.memory;
    begin += bytes + padding_after(bytes);
  }
  if (begin != file_.size) fail("it ends at ", file_.size, " instead of ", begin);
}

}  // namespace

Loaded load(const std::string& path, const Metadata& running) { return Reader(path).load(running); }

bool is_saved(std::string_view begin) { return begin.starts_with({kFileMagic.data(), kFileMagic.size()}); }

}  // namespace npugraph::program
