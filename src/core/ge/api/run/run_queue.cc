// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/run_queue.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ge/api/run/api_error.h"

namespace npugraph::ge {

RunQueue::~RunQueue() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void RunQueue::add(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
    work_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void RunQueue::wait() {
  std::unique_lock lock(mutex_);
  const uint64_t added = done_ + work_.size();
  changed_.wait(lock, [&] { return done_ >= added; });
}

void RunQueue::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !work_.empty(); });
    if (work_.empty()) return;
    std::function<void()> work = std::move(work_.front());
    lock.unlock();
    work();
    work = nullptr;  // what it holds goes before somebody learns that it is done
    lock.lock();
    work_.pop_front();
    ++done_;
    changed_.notify_all();
  }
}

namespace {

struct AllStreams {
  std::mutex mutex;
  std::map<const void*, std::shared_ptr<StreamQueue>> by_address;
};

// Leaked on purpose: streams may outlive static destruction.
AllStreams& all_streams() {
  static auto* streams = new AllStreams;
  return *streams;
}

}  // namespace

void StreamQueue::add(std::function<void()> run) {
  queue_.add([this, run = std::move(run)] {
    try {
      run();
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!failure_) failure_ = current_failure();
    }
    std::string warnings = npugraph::ge::take_warnings();  // of this thread
    if (warnings.empty()) return;
    std::lock_guard lock(mutex_);
    if (std::ranges::find(warnings_, warnings) == warnings_.end()) warnings_.push_back(std::move(warnings));
  });
}

std::optional<std::pair<::ge::Status, std::string>> StreamQueue::take_failure() {
  std::lock_guard lock(mutex_);
  return std::exchange(failure_, std::nullopt);
}

std::vector<std::string> StreamQueue::take_warnings() {
  std::lock_guard lock(mutex_);
  return std::exchange(warnings_, {});
}

void add_stream(const void* stream, std::shared_ptr<StreamQueue> queue) {
  std::lock_guard lock(all_streams().mutex);
  all_streams().by_address.emplace(stream, std::move(queue));
}

void remove_stream(const void* stream) {
  std::lock_guard lock(all_streams().mutex);
  all_streams().by_address.erase(stream);
}

std::shared_ptr<StreamQueue> queue_of(const void* stream) {
  if (stream == nullptr) return nullptr;
  std::lock_guard lock(all_streams().mutex);
  const auto found = all_streams().by_address.find(stream);
  if (found == all_streams().by_address.end())
    throw ApiError(::ge::GE_STREAM_INVALID,
                   cat("there is no stream at ", stream, ": a stream is the address of a ge::Stream, or null"));
  return found->second;
}

}  // namespace npugraph::ge
