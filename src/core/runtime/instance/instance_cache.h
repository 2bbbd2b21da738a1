// SPDX-License-Identifier: Apache-2.0
// The Instances of an Executable by the symbol values and the lease that they are bound to. The least recently used one
// is dropped first.
//
// Not thread-safe: the Executable holds its lock. An Instance whose lease is busy may be in use and is never dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/instance/instance.h"
#include "runtime/instance/lease.h"

namespace npugraph::runtime {

// The bits of Blueprint::key_symbols, in order.
using SymbolKey = std::vector<int64_t>;

class InstanceCache {
 public:
  struct Entry {
    SymbolKey key;
    Lease* lease = nullptr;
    std::unique_ptr<Instance> instance;
  };

  explicit InstanceCache(size_t capacity) : capacity_(capacity) {}

  // Null if there is none. The Instance that is found becomes the most recently used one.
  Instance* find(const SymbolKey& key, Lease& lease);
  // Requires that there is none for this key and lease. May drop others.
  void insert(SymbolKey key, Lease& lease, std::unique_ptr<Instance> instance);
  // Whether an Instance of this key and lease was dropped to make room. Remembers the last few thousand.
  bool was_evicted(const SymbolKey& key, const Lease& lease) const;
  void drop(const Lease& lease);
  void drop(const SymbolKey& key, const Lease& lease);
  // Forgets the Instances of a lease without destroying them: a thread that no longer exists was using one.
  void abandon(const Lease& lease);
  // Drops the Instances of all leases that are not busy.
  void drop_idle();
  // Takes the Instances dropped since the last call. They are to be destroyed without the lock, because memory of the
  // host may be freed with them.
  std::vector<std::unique_ptr<Instance>> take_dropped() { return std::exchange(dropped_, {}); }

  // Most recently used first.
  const std::list<Entry>& entries() const { return entries_; }

 private:
  using Position = std::list<Entry>::iterator;
  static size_t hash(const SymbolKey& key, const Lease& lease);
  Position erase(Position entry);

  const size_t capacity_;
  std::list<Entry> entries_;
  std::unordered_multimap<size_t, Position> index_;
  std::unordered_set<size_t> evicted_;  // hashes
  std::vector<std::unique_ptr<Instance>> dropped_;
};

}  // namespace npugraph::runtime
