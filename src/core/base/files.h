// SPDX-License-Identifier: Apache-2.0
// Files: written as a whole or not at all, mapped into memory, and trusted or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace npugraph {

// A file that appears under its name as a whole, or not at all.
// Only the owner may write the file. Others may read a shared one, as far as the umask allows. Data goes to a temporary
// file in the same directory, which commit() renames; without a commit() the destructor removes it. Every failure is a
// UserError "cannot write <what> to <path>: <reason>".
class AtomicFile {
 public:
  enum class Readers : uint8_t { kOwner, kShared };
  AtomicFile(std::string path, std::string what, Readers readers = Readers::kOwner);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> data);
  void commit();
  // Like commit(), but does not wait for the disk: after a crash of the machine the file may hold anything.
  void commit_unsynced();

 private:
  [[noreturn]] void fail() const;

  std::string path_;
  std::string what_;
  std::string temporary_;
  int descriptor_ = -1;
  bool exists_ = false;
};

// A file descriptor that closes itself.
class Descriptor {
 public:
  // `number` is a result of open(); a negative one means that there is no descriptor.
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }

 private:
  int number_;
};

// Which files a process takes code from.

// Empty for a file or directory of this user or of root, which may replace any program anyway, that others cannot
// write. Else the reason: "it is owned by user 12, not by this user, 34, or by root", "others may write it: run chmod
// go-w on it".
std::string why_not_trusted(const struct stat& status);

// A regular file in memory.
struct MappedFile {
  std::shared_ptr<void> memory;  // unmapped when the last copy goes; null for an empty file
  uint64_t size = 0;
  std::string distrust;  // why_not_trusted() of the file

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(memory.get()), size}; }
};

// Maps a file privately: writes to the memory stay in this process. UserError, whose message is the reason without the
// path, if the file cannot be opened or is not a regular file.
MappedFile map_file(const std::string& path);

}  // namespace npugraph
