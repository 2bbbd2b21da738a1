// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include <c10/core/Allocator.h>

#include "backend/bindings/init.h"
#include "backend/bridge/task_functions.h"
#include "base/error.h"

namespace npugraph::bindings {

namespace {

using Row = std::tuple<std::string, int64_t, int64_t>;

// Forwards to the allocator that was installed before. That one owns the memory, which may be freed after counting.
class CountingAllocator final : public c10::Allocator {
 public:
  // Leaked: a thread may be inside allocate() when counting stops.
  static CountingAllocator& instance() {
    static auto* allocator = new CountingAllocator;
    return *allocator;
  }

  void start() {
    const std::lock_guard lock(mutex_);
    if (counting_) throw UserError("allocations are being counted already");
    counting_ = true;
    counts_.clear();
    inner_ = c10::GetAllocator(c10::kCPU);
    c10::SetAllocator(c10::kCPU, this, kPriority);
    bridge::TaskScope::set_tracked(true);
  }

  std::vector<Row> stop() {
    const std::lock_guard lock(mutex_);
    if (!counting_) throw UserError("allocations are not being counted");
    counting_ = false;
    bridge::TaskScope::set_tracked(false);
    c10::SetAllocator(c10::kCPU, inner_, kPriority);
    std::vector<Row> rows;
    for (const auto& [name, count] : counts_) rows.emplace_back(name, count.allocations, count.bytes);
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row& a, const Row& b) { return std::get<2>(a) > std::get<2>(b); });
    return rows;
  }

  c10::DataPtr allocate(size_t bytes) override {
    const std::string* task = bridge::TaskScope::current();
    {
      const std::lock_guard lock(mutex_);
      Count& count = counts_[task == nullptr ? std::string() : *task];
      ++count.allocations;
      count.bytes += static_cast<int64_t>(bytes);
    }
    return inner_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return inner_->raw_deleter(); }
  void copy_data(void* dest, const void* source, std::size_t bytes) const override {
    inner_->copy_data(dest, source, bytes);
  }

 private:
  struct Count {
    int64_t allocations = 0;
    int64_t bytes = 0;
  };
  static constexpr uint8_t kPriority = 255;  // not to be displaced while counting

  CountingAllocator() = default;
  std::mutex mutex_;
  c10::Allocator* inner_ = nullptr;
  bool counting_ = false;
  std::map<std::string, Count> counts_;
};

}  // namespace

void init_allocation_hook(py::module_& module) {
  module.def("allocations_start", [] { CountingAllocator::instance().start(); });
  module.def("allocations_stop", [] { return CountingAllocator::instance().stop(); });
}

}  // namespace npugraph::bindings
