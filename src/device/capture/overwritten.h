// SPDX-License-Identifier: Apache-2.0
// Saves what launches overwrite while a capture runs them, and restores it: only the
// written bytes, not whole storages. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace npugraph::capture {

// The bytes of a tensor in its storage: `run` bytes from `first` on, repeated at each step of `outer`.
struct Runs {
  struct Outer {
    int64_t size, stride;  // in bytes
    bool operator==(const Outer&) const = default;
  };
  int64_t first = 0;
  int64_t run = 0;
  std::vector<Outer> outer;  // in ascending order of strides
  bool operator==(const Runs&) const = default;

  int64_t bytes() const;
};

// For a tensor whose elements overlap, all bytes from its first to its last.
Runs runs_of(const at::Tensor& tensor);

using Places = c10::List<std::optional<at::Tensor>>;

class Overwritten {
 public:
  // To be called before `tensor` in `storage` is written. `may_resize` saves all
  // of the storage, since any of it may be written.
  void save(const c10::Storage& storage, const at::Tensor& tensor, bool may_resize);
  // To be called instead before into.index_put_(places, ...) on cpu tensors. IndexError if there are no such places.
  void save_rows(const at::Tensor& into, const Places& places);
  // Restores everything that was saved.
  void restore();

 private:
  bool holds(const c10::Storage& storage, const Runs& runs) const;

  std::vector<std::function<void()>> put_back_;  // in the order in which they were saved
  std::unordered_map<const c10::StorageImpl*, std::vector<Runs>> held_;
};

// For operators that write a few places of a large tensor: the places that an operator of torch writes in its first
// argument, as cpu tensors. Nullopt if these may be all of it,
// or if the operator is not one of those known here.
std::optional<Places> written_places(const c10::OperatorHandle& op, std::span<const c10::IValue> args);

}  // namespace npugraph::capture
