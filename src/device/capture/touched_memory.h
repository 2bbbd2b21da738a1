// SPDX-License-Identifier: Apache-2.0
// The storages that the launches of one capture read and write, numbered in the order of their first use.
//
// Storages that a launch makes are not kept alive: those that are gone when the capture ends are
// intermediates. All other storages are kept alive, and their contents are restored at the end, because a
// capture must have no visible effect. Not thread-safe.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "device/capture/overwritten.h"

namespace npugraph::capture {

struct TouchedPiece {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  c10::Storage held;    // if no launch made it; from resolve() on, also if it needs an address
  at::Tensor constant;  // values that a launch took from the host, in place of a storage
  int64_t bytes = 0;
  c10::Device device{c10::kCPU};
  bool is_result = false;   // a launch made all of it, as one result
  int32_t first_step = -1;  // index in the recording
  int32_t last_step = -1;
};

class TouchedMemory {
 public:
  // Returns the number of the memory of `tensor`, an argument of a launch.
  int32_t argument(const at::Tensor& tensor, int32_t step);
  // The same for a result. New memory was made by the launch; `is_whole`:
  // this one result fills it from its first byte on.
  int32_t result(const at::Tensor& tensor, int32_t step, bool is_whole);
  // The same for a tensor whose present values the launch takes from the host.
  int32_t constant(const at::Tensor& tensor, int32_t step);
  // To be called before a launch writes `tensor`, or, with `may_resize`, resizes and writes it.
  void save(const at::Tensor& tensor, int32_t step, bool may_resize = false);
  // The same for rows of an argument for which is_outside() is true, given by a cpu alias.
  void save_rows(const at::Tensor& alias, const Places& places) { overwritten_.save_rows(alias, places); }
  // Whether the memory of `tensor`, an argument, was there before the capture.
  bool is_outside(const at::Tensor& tensor, int32_t step);
  // Puts back what was saved.
  void restore() { overwritten_.restore(); }

  // Called after the last launch: gives an address to all memory that outlives the capture, or that several steps
  // share. Each run allocates the rest itself (is_intermediate).
  void resolve();
  bool is_intermediate(int32_t number) const { return !pieces_[number].held && !pieces_[number].constant.defined(); }
  const TouchedPiece& piece(int32_t number) const { return pieces_[number]; }

 private:
  int32_t touch(const at::Tensor& tensor, int32_t step);

  std::vector<TouchedPiece> pieces_;
  // The weak references in pieces_ keep addresses from being used again.
  std::unordered_map<const c10::StorageImpl*, int32_t> numbers_;
  Overwritten overwritten_;
};

}  // namespace npugraph::capture
