// SPDX-License-Identifier: Apache-2.0
#include "runtime/instance/instance_cache.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"

namespace npugraph::runtime {
namespace {

constexpr size_t kRememberedEvictions = 4096;

}  // namespace

size_t InstanceCache::hash(const SymbolKey& key, const Lease& lease) {
  size_t seed = static_cast<size_t>(lease.index);
  for (const int64_t value : key) hash_combine(seed, static_cast<size_t>(value));
  return seed;
}

Instance* InstanceCache::find(const SymbolKey& key, Lease& lease) {
  // Most calls have the sizes of the previous call.
  if (!entries_.empty() && entries_.front().lease == &lease && entries_.front().key == key) {
    return entries_.front().instance.get();
  }
  const auto [first, last] = index_.equal_range(hash(key, lease));
  for (auto it = first; it != last; ++it) {
    const Position entry = it->second;
    if (entry->lease != &lease || entry->key != key) continue;
    entries_.splice(entries_.begin(), entries_, entry);
    return entry->instance.get();
  }
  return nullptr;
}

void InstanceCache::insert(SymbolKey key, Lease& lease, std::unique_ptr<Instance> instance) {
  for (auto it = entries_.end(); it != entries_.begin() && entries_.size() >= capacity_;) {
    --it;
    if (it->lease->busy && it->lease != &lease) continue;
    if (evicted_.size() == kRememberedEvictions) evicted_.clear();
    evicted_.insert(hash(it->key, *it->lease));
    it = erase(it);
  }
  const size_t key_hash = hash(key, lease);
  evicted_.erase(key_hash);
  entries_.push_front({std::move(key), &lease, std::move(instance)});
  index_.emplace(key_hash, entries_.begin());
}

bool InstanceCache::was_evicted(const SymbolKey& key, const Lease& lease) const {
  return evicted_.contains(hash(key, lease));
}

void InstanceCache::drop(const Lease& lease) {
  for (auto it = entries_.begin(); it != entries_.end();) it = it->lease == &lease ? erase(it) : std::next(it);
}

void InstanceCache::drop(const SymbolKey& key, const Lease& lease) {
  const auto is_meant = [&](const Entry& entry) { return entry.lease == &lease && entry.key == key; };
  const auto found = std::ranges::find_if(entries_, is_meant);
  if (found != entries_.end()) erase(found);
}

void InstanceCache::abandon(const Lease& lease) {
  for (Entry& entry : entries_) {
    if (entry.lease == &lease) static_cast<void>(entry.instance.release());
  }
  drop(lease);
}

void InstanceCache::drop_idle() {
  for (auto it = entries_.begin(); it != entries_.end();) it = it->lease->busy ? std::next(it) : erase(it);
}

InstanceCache::Position InstanceCache::erase(Position entry) {
  const auto [first, last] = index_.equal_range(hash(entry->key, *entry->lease));
  for (auto it = first; it != last; ++it) {
    if (it->second != entry) continue;
    index_.erase(it);
    break;
  }
  if (entry->instance != nullptr) dropped_.push_back(std::move(entry->instance));
  return entries_.erase(entry);
}

}  // namespace npugraph::runtime
