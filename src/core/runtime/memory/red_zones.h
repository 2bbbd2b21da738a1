// SPDX-License-Identifier: Apache-2.0
// Bytes of a known pattern around the memory that a replay works in: arena buffers, workspaces, constants, results and
// heap buffers that the runtime allocates. A task that writes outside of its memory changes them; the check right after
// the task names it. Memory that a task allocates itself and memory of the caller have none.
//
// Of users' operators it also watches the operands that they only read, whoever has the memory.
//
// Made for one replay of an Instance that was made while red_zones() was on; the tasks of the replay run in the order
// of the program. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/instance/instance.h"

namespace npugraph::runtime {

class RedZones {
 public:
  // Bytes on each side of memory that Instances place themselves.
  static constexpr int64_t kBytes = 512;

  // `around_objects` is Host::red_zone_bytes(). `results_are_kept`: results lie in memory that the host may have
  // replaced, so they have no red zones.
  RedZones(const Blueprint& blueprint, const Instance& instance, int64_t around_objects, bool results_are_kept);

  // Called before a task: writes the zones around the memory whose life begins with it.
  void begin(int32_t task);
  // Called after a task: throws if a zone or what it only reads has changed; UserError for an operator of torch or of
  // the user, else InternalError.
  void check(int32_t task) const;

 private:
  // A piece of memory, and the tasks during which it lives.
  struct Piece {
    int32_t buffer = program::kNone;  // kNone: the workspace of task `first`
    int32_t first = 0, last = 0;
    int64_t zone = kBytes;
  };
  // What a user's operator reads and does not write.
  struct Read {
    int32_t operand = 0;
    size_t hash = 0;  // of its bytes
  };
  void note_reads(int32_t task);
  void check_reads(int32_t task) const;
  std::string words(int32_t task) const;
  std::byte* data(const Piece& piece) const;
  int64_t bytes(const Piece& piece) const;
  std::string name(const Piece& piece) const;

  const Blueprint& blueprint_;
  const Instance& instance_;
  std::vector<Piece> pieces_;
  std::vector<Read> reads_;  // of the task that runs
};

}  // namespace npugraph::runtime
