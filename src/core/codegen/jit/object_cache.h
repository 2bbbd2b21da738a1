// SPDX-License-Identifier: Apache-2.0
// Object files of generated code, kept on disk for later processes. Each is a file in one directory, named by a hash of
// all that the code is made of, with a checksum inside. Any number of processes and threads may use one directory.
// Errors of the disk only prevent reuse, and the first one gives a warning.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "target/target.h"

namespace npugraph::codegen {

class ObjectCache {
 public:
  struct Options {
    std::string directory;  // absolute; made at the first write, for its owner alone; empty: nothing is kept
    std::string build;      // id of the build of the code generator; empty: nothing is kept
    int64_t most_bytes = int64_t{256} << 20;
  };

  explicit ObjectCache(Options options) : options_(std::move(options)) {}

  bool is_on() const { return !options_.directory.empty() && !options_.build.empty(); }
  // The object that was stored for this target and text; nullopt if there is none that can be trusted. A directory or
  // file of another user, or one that others may write to, gives one warning. Damaged files are ignored.
  std::optional<std::vector<char>> find(const target::Target& target, std::string_view text) const;
  // Stores `object`. May remove the least recently used files, so that all together have at most about `most_bytes`.
  void store(const target::Target& target, std::string_view text, const std::vector<char>& object) const;
  // Takes the turn to make the code for this target and text. Waits at most some seconds while another process or
  // thread has it. The turn is held as long as the descriptor is open, and ends with the process. Returns an invalid
  // descriptor if the wait is too long or the disk grants no turns.
  Descriptor take_turn(const target::Target& target, std::string_view text) const;

 private:
  int open_directory() const;                  // -1 if there is none that can be trusted
  void warn(const std::string& reason) const;  // once
  bool is_trusted(int descriptor, const std::string& path) const;

  Options options_;
  mutable std::atomic<bool> warned_ = false;
  mutable std::atomic<bool> failed_ = false;
};

// The cache of the process, in the directory that NPUGRAPH_CACHE chooses at the first call.
const ObjectCache& object_cache();

// Builds are identified by the GNU build id that the linker wrote, a hash of everything that it linked.

// The build id of the program or shared library that holds `address`; empty if there is none.
std::string build_id_of(const void* address);

// The build id of the one that holds the code generator. Looked up once.
const std::string& build_id();

}  // namespace npugraph::codegen
