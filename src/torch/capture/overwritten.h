// SPDX-License-Identifier: Apache-2.0
// What launches overwrite while a capture runs them, to be put back: what they write, and not all of the storages that it is
// in. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include <ATen/ATen.h>

namespace npugraph::capture {

// The bytes of a tensor in its storage: `run` bytes from `first` on, again at each step of `outer`.
struct Runs {
  struct Outer {
    int64_t size, stride;  // in bytes
    bool operator==(const Outer&) const = default;
  };
  int64_t first = 0;
  int64_t run = 0;
  std::vector<Outer> outer;  // the least stride first
  bool operator==(const Runs&) const = default;

  int64_t bytes() const;
};

// Of a tensor whose elements share memory, all bytes from its first to its last.
Runs runs_of(const at::Tensor& tensor);

using Places = c10::List<std::optional<at::Tensor>>;

class Overwritten {
 public:
  // To be called before `tensor` in `storage` is written; by who may give it another size, which can be all of the storage.
  void save(const c10::Storage& storage, const at::Tensor& tensor, bool may_resize);
  // To be called before into.index_put_(places, ...), of cpu tensors, instead. IndexError where there are no such places.
  void save_rows(const at::Tensor& into, const Places& places);
  // Puts all of it back.
  void restore();

 private:
  bool holds(const c10::Storage& storage, const Runs& runs) const;

  std::vector<std::function<void()>> put_back_;  // in the order in which they were saved
  std::unordered_map<const c10::StorageImpl*, std::vector<Runs>> held_;
};

}  // namespace npugraph::capture
