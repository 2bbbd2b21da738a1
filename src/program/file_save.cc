// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

// A file that appears under its name when commit() is called, and leaves no trace otherwise.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path) : path_(path), temporary_(path + ".XXXXXX") {
    descriptor_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
    if (descriptor_ < 0) fail();
    exists_ = true;
    if (::fchmod(descriptor_, S_IRUSR | S_IWUSR) != 0) fail();
  }
  ~AtomicFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (exists_) ::unlink(temporary_.c_str());
  }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> data) {
    while (!data.empty()) {
      const ssize_t written = ::write(descriptor_, data.data(), data.size());
      if (written < 0 && errno != EINTR) fail();
      if (written > 0) data = data.subspan(written);
    }
  }

  void write_padded(std::span<const std::byte> data) {
    static constexpr std::array<std::byte, kFileAlignment> kZeros = {};
    write(data);
    write(std::span(kZeros).first(padding_after(data.size())));
  }

  void commit() {
    if (::fsync(descriptor_) != 0) fail();
    if (::close(std::exchange(descriptor_, -1)) != 0) fail();
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
    exists_ = false;
  }

 private:
  [[noreturn]] void fail() const {
    throw UserError(cat("cannot write the Program to ", path_, ": ", std::strerror(errno)));
  }

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
  bool exists_ = false;
};

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
  for (const auto& [key, value] : metadata) text += cat(quote(key), " ", quote(value), "\n");
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

  AtomicFile file(path);
  file.write_padded(bytes_of(&header, sizeof header));
  file.write_padded(bytes_of(text.data(), text.size()));
  for (const Constant& constant : program.constants) file.write_padded(bytes_of(constant.data, constant.bytes));
  file.commit();
}

}  // namespace npugraph::program
