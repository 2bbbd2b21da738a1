// SPDX-License-Identifier: Apache-2.0
// A file that appears under its name as a whole, or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace npugraph {

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

}  // namespace npugraph
