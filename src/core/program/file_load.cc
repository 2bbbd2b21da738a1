// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <string_view>

#include "abi/task.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "program/file.h"
#include "program/file_format.h"
#include "program/text.h"
#include "tensor/lexer.h"

namespace npugraph::program {
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
