// SPDX-License-Identifier: Apache-2.0
// Storages of a device over storages of cpu, each made once, so that tensors that share memory share their storage. For
// the results of one call.
#pragma once

#include <algorithm>

#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

namespace npugraph::bridge {

class StoragePairs {
 public:
  // `make(cpu)` makes a storage that keeps `cpu` alive.
  template <typename Make>
  const c10::Storage& over(const c10::Storage& cpu, const Make& make) {
    const auto* found = std::ranges::find(pairs_, cpu.unsafeGetStorageImpl(), &Pair::cpu);
    if (found != pairs_.end()) return found->made;
    pairs_.push_back({cpu.unsafeGetStorageImpl(), make(cpu)});
    return pairs_.back().made;
  }

 private:
  struct Pair {
    c10::StorageImpl* cpu;
    c10::Storage made;
  };
  c10::SmallVector<Pair, 2> pairs_;
};

}  // namespace npugraph::bridge
