// SPDX-License-Identifier: Apache-2.0
// Caches machine code by the text that it is made of: equal code is made once while it is in use, and kept for later
// users.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "target/target.h"

namespace npugraph::codegen {

// Frees the code of all caches that no task uses. Thread-safe.
void drop_unused_code();

namespace detail {
void add_cache(std::function<void()> drop_unused);
}

// There is one cache for each kind of code. It must live as long as the process, because tasks may be made while the
// process ends. Thread-safe.
template <typename Code>
class CodeCache {
 public:
  using Shared = std::shared_ptr<const Code>;

  CodeCache() {
    detail::add_cache([this] { drop_unused(); });
  }

  // The code for `text`, which contains all that the code depends on except the target. make() returns a Code.
  template <typename Make>
  Shared get(const target::Target& target, const std::string& text, Make make) {
    const std::string key = cat(target.cpu, " ", target.features, "\n", text);
    if (Shared found = find(key)) return found;
    // Two threads may make the same code; that of the first to finish is kept.
    Shared made = std::make_shared<const Code>(make());
    const std::lock_guard lock(mutex_);
    if (codes_.size() >= kMost) erase_unused();
    return codes_.emplace(key, std::move(made)).first->second;
  }

  void drop_unused() {
    const std::lock_guard lock(mutex_);
    erase_unused();
  }

 private:
  static constexpr size_t kMost = 1024;  // unused codes are erased if there are so many codes

  Shared find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = codes_.find(key);
    return found == codes_.end() ? nullptr : found->second;
  }

  void erase_unused() {
    std::erase_if(codes_, [](const auto& row) { return row.second.use_count() == 1; });
  }

  std::mutex mutex_;
  std::unordered_map<std::string, Shared> codes_;
};

}  // namespace npugraph::codegen
