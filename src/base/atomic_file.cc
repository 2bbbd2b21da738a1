// SPDX-License-Identifier: Apache-2.0
#include "base/atomic_file.h"

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

AtomicFile::AtomicFile(std::string path, std::string what)
    : path_(std::move(path)), what_(std::move(what)), temporary_(path_ + ".XXXXXX") {
  descriptor_ = ::mkostemp(temporary_.data(), O_CLOEXEC);  // mode 0600
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
