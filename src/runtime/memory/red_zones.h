// SPDX-License-Identifier: Apache-2.0
// Bytes of a known pattern around the memory that a replay works in: arena buffers, workspaces, constants, results and heap
// buffers that the runtime allocates. A task that writes outside of its memory changes them and is named, right after it has
// run. What a task allocates itself, and what the caller gives, has none.
//
// Of an Instance that was made while red_zones() was on, during one replay whose tasks run in the order of the program. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/instance/instance.h"

namespace npugraph::runtime {

class RedZones {
 public:
  // Around memory that Instances place themselves, on each side.
  static constexpr int64_t kBytes = 512;

  // `around_objects`: Host::red_zone_bytes(); `results_are_kept`: results lie in memory that the host may have replaced.
  RedZones(const Blueprint& blueprint, const Instance& instance, int64_t around_objects, bool results_are_kept);

  // Before a task: writes the zones around what lives from there on.
  void begin(int32_t task) const;
  // Behind it: InternalError where a zone has changed.
  void check(int32_t task) const;

 private:
  // A piece of memory, and the tasks during which it lives.
  struct Piece {
    int32_t buffer = program::kNone;  // kNone: the workspace of task `first`
    int32_t first = 0, last = 0;
    int64_t zone = kBytes;
  };
  std::byte* data(const Piece& piece) const;
  int64_t bytes(const Piece& piece) const;
  std::string name(const Piece& piece) const;

  const Blueprint& blueprint_;
  const Instance& instance_;
  std::vector<Piece> pieces_;
};

}  // namespace npugraph::runtime
