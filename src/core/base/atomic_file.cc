// SPDX-License-Identifier: Apache-2.0
#include "base/atomic_file.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace npugraph {

namespace {

// A file of its own beside `path`. Not mkostemp(), whose files have mode 0600 whatever the umask says.
int create_beside(const std::string& path, mode_t mode, std::string& name) {
  static std::atomic<uint64_t> count = 0;
  int descriptor = -1;
  do {
    name = cat(path, ".", ::getpid(), ".", count.fetch_add(1));
    descriptor = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  } while (descriptor < 0 && errno == EEXIST);
  return descriptor;
}

}  // namespace

AtomicFile::AtomicFile(std::string path, std::string what, Readers readers)
    : path_(std::move(path)), what_(std::move(what)) {
  descriptor_ = create_beside(path_, readers == Readers::kOwner ? 0600 : 0644, temporary_);
  if (descriptor_ < 0) fail();
  exists_ = true;
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (exists_) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t written = ::write(descriptor_, data.data(), data.size());
    if (written < 0 && errno != EINTR) fail();
    if (written > 0) data = data.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail();
  commit_unsynced();
}

void AtomicFile::commit_unsynced() {
  if (::close(std::exchange(descriptor_, -1)) != 0) fail();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
  exists_ = false;
}

void AtomicFile::fail() const {
  throw UserError(cat("cannot write ", what_, " to ", path_, ": ", std::strerror(errno)));
}

}  // namespace npugraph
