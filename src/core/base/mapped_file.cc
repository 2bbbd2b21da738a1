// SPDX-License-Identifier: Apache-2.0
#include "base/mapped_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/trust.h"

namespace npugraph {

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
