// SPDX-License-Identifier: Apache-2.0
#include "device/distributed/group_thread.h"

#include <algorithm>
#include <utility>

namespace npugraph::distributed {

GroupThread::GroupThread() : thread_(&GroupThread::serve, state_) {}

GroupThread::~GroupThread() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
  }
  state_->changed.notify_all();
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else
    thread_.join();
}

void GroupThread::run(Job job) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->jobs.push_back(std::move(job));
  }
  state_->changed.notify_all();
}

void GroupThread::drain() {
  if (thread_.get_id() == std::this_thread::get_id()) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->jobs.empty() && !state_->busy; });
}

void GroupThread::serve(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->closed || !state->jobs.empty(); });
    if (state->jobs.empty()) return;
    Job job = std::move(state->jobs.front());
    state->jobs.pop_front();
    state->busy = true;
    lock.unlock();
    job();
    job = nullptr;  // without the lock: destroying what it holds may take other locks
    lock.lock();
    state->busy = false;
    state->changed.notify_all();
  }
}

void Transfers::watch(c10::intrusive_ptr<c10d::Work> transfer, Done done) {
  const std::lock_guard lock(state_->mutex);
  const auto pending = state_->pending.insert(state_->pending.end(), {std::move(transfer), std::move(done), {}});
  std::thread([state = state_, pending] { wait(state, pending); }).detach();
}

void Transfers::wait(const std::shared_ptr<State>& state, std::list<Pending>::iterator pending) {
  std::unique_lock lock(state->mutex);
  pending->thread = std::this_thread::get_id();
  auto transfer = pending->transfer;
  lock.unlock();
  std::exception_ptr error;
  try {
    if (!transfer->wait()) error = std::make_exception_ptr(std::runtime_error("the process group was destroyed"));
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  pending->transfer = nullptr;
  lock.unlock();
  pending->done(error);
  transfer = nullptr;
  error = nullptr;
  pending->done = nullptr;
  lock.lock();
  state->pending.erase(pending);
  state->changed.notify_all();
}

void Transfers::abort() {
  std::unique_lock lock(state_->mutex);
  for (const Pending& pending : state_->pending) {
    if (pending.transfer) pending.transfer->abort();
  }
  state_->changed.wait(lock, [this] {
    return std::ranges::all_of(state_->pending,
                               [](const Pending& pending) { return pending.thread == std::this_thread::get_id(); });
  });
}

}  // namespace npugraph::distributed
