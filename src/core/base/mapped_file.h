// SPDX-License-Identifier: Apache-2.0
// Regular files in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace npugraph {

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
