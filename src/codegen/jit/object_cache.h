// SPDX-License-Identifier: Apache-2.0
// Object files of generated code, kept on disk for later processes. A directory of one file for each, named by a hash of all
// that the code is made of, with a checksum inside. Any number of processes and threads may use one directory. What the disk
// refuses costs the reuse and nothing else.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "target/target.h"

namespace npugraph::codegen {

class ObjectCache {
 public:
  struct Options {
    std::string directory;  // absolute; made when first written to, for its owner alone; empty: nothing is kept
    std::string build;      // of the code generator; empty: nothing is kept
    int64_t most_bytes = int64_t{256} << 20;
  };

  explicit ObjectCache(Options options) : options_(std::move(options)) {}

  bool is_on() const { return !options_.directory.empty() && !options_.build.empty(); }
  // The object that was stored for this target and text; nothing where there is none that can be trusted: a directory or file of
  // another user, or one that others may write to, gives one warning, damaged files are passed over.
  std::optional<std::vector<char>> find(const target::Target& target, std::string_view text) const;
  // Keeps `object`. May drop files that were not used for the longest time, so that there are about `most_bytes` at most.
  void store(const target::Target& target, std::string_view text, const std::vector<char>& object) const;
  // Waits while another process or thread holds the turn for this target and text, for some seconds at most; it is held as
  // long as the descriptor is open, and ends with the process. An invalid descriptor where the disk grants no turns.
  Descriptor take_turn(const target::Target& target, std::string_view text) const;

 private:
  int open_directory() const;  // -1 where there is none to trust
  bool is_trusted(int descriptor, const std::string& path) const;

  Options options_;
  mutable std::atomic<bool> warned_ = false;
  mutable std::atomic<bool> failed_ = false;
};

// That of the process, where NPUGRAPH_CACHE says at the first call.
const ObjectCache& object_cache();

}  // namespace npugraph::codegen
