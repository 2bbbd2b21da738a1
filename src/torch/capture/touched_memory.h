// SPDX-License-Identifier: Apache-2.0
// The storages that the launches of one capture read and write, numbered in the order in which they are met.
//
// Storages that a launch makes are not kept alive: what is gone when the capture ends was intermediate. All others are. What
// launches write of others is put back at the end, because a capture computes nothing that can be seen.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include <ATen/ATen.h>

#include "torch/capture/overwritten.h"

namespace npugraph::capture {

struct TouchedPiece {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  c10::Storage held;    // of what no launch made, and from resolve() on of all that needs an address
  at::Tensor constant;  // what a launch took from the host, in place of a storage
  int64_t bytes = 0;
  c10::Device device{c10::kCPU};
  bool is_result = false;   // a launch made all of it, as one result
  int32_t first_step = -1;  // of the recording
  int32_t last_step = -1;
};

class TouchedMemory {
 public:
  // The number of the memory of `tensor`, met as an argument.
  int32_t argument(const at::Tensor& tensor, int32_t step);
  // The same of a result. A new one is what the launch made; `is_whole`: it is one result that begins where its memory does.
  int32_t result(const at::Tensor& tensor, int32_t step, bool is_whole);
  // What the launch takes from the host: its values now.
  int32_t constant(const at::Tensor& tensor, int32_t step);
  // To be called before a launch writes `tensor`, or gives it another size and writes that.
  void save(const at::Tensor& tensor, int32_t step, bool may_resize = false);
  // The same for rows of an argument that is_outside(), by a cpu alias.
  void save_rows(const at::Tensor& alias, const Places& places) { overwritten_.save_rows(alias, places); }
  // Whether the memory of `tensor`, an argument, was there before the capture.
  bool is_outside(const at::Tensor& tensor, int32_t step);
  // Puts back what was saved.
  void restore() { overwritten_.restore(); }

  // No more launches: gives an address to all that outlives the capture, or that several steps share. The others can be
  // where each run puts them (is_intermediate).
  void resolve();
  bool is_intermediate(int32_t number) const { return !pieces_[number].held && !pieces_[number].constant.defined(); }
  const TouchedPiece& piece(int32_t number) const { return pieces_[number]; }

 private:
  int32_t touch(const at::Tensor& tensor, int32_t step);

  std::vector<TouchedPiece> pieces_;
  std::unordered_map<const c10::StorageImpl*, int32_t>
      numbers_;  // a weak reference keeps addresses from being used again
  Overwritten overwritten_;
};

}  // namespace npugraph::capture
