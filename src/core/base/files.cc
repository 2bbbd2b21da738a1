// SPDX-License-Identifier: Apache-2.0
#include "base/files.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
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

std::string why_not_trusted(const struct stat& status) {
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return cat("it is owned by user ", status.st_uid, ", not by this user, ", ::geteuid(), ", or by root");
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "others may write it: run chmod go-w on it";
  return {};
}

MappedFile map_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // does not wait for a pipe's writer
  struct stat status = {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) throw UserError(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw UserError("it is not a regular file");
  MappedFile mapped;
  mapped.size = static_cast<uint64_t>(status.st_size);
  mapped.distrust = why_not_trusted(status);
  if (mapped.size == 0) return mapped;
  void* memory = ::mmap(nullptr, mapped.size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0);
  if (memory == MAP_FAILED) throw UserError(std::strerror(errno));
  mapped.memory = std::shared_ptr<void>(memory, [size = mapped.size](void* p) { ::munmap(p, size); });
  return mapped;
}

}  // namespace npugraph
