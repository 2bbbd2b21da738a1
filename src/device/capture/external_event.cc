// SPDX-License-Identifier: Apache-2.0
#include "device/capture/external_event.h"

#include <exception>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/capture/capture.h"
#include "device/capture/replay.h"

namespace npugraph::capture {

namespace {

struct Stopped {
  std::shared_ptr<ExternalEvent> event;
  std::function<void()> go_on;
};

struct Streams {
  std::mutex mutex;
  std::unordered_map<c10::Stream, Stopped> stopped;
};

Streams& streams() {
  static auto* all = new Streams;
  return *all;
}

}  // namespace

void check_runs(const char* what, c10::Stream stream, bool whole_device) {
  const std::lock_guard lock(streams().mutex);
  for (const auto& [stopped, entry] : streams().stopped) {
    const bool same = whole_device ? stopped.device() == stream.device() : stopped == stream;
    TORCH_CHECK(!same, what, ": stream ", stopped.id(), " of ", stopped.device(),
                " waits for an ExternalEvent that nobody has recorded. Record it, or update the graph, before work "
                "that follows");
  }
}

void ExternalEvent::record(c10::Stream stream) {
  if (const auto capture = capture_of(stream))
    return capture->add_event(RecordedStep::Kind::kRecord, shared_from_this());
  happen(stream);
}

void ExternalEvent::wait(c10::Stream stream) {
  if (const auto capture = capture_of(stream)) return capture->add_event(RecordedStep::Kind::kWait, shared_from_this());
  check_runs("ExternalEvent.wait()", stream, false);
  wait_or_stop(stream, [] {});
}

void ExternalEvent::reset(c10::Stream stream) {
  if (const auto capture = capture_of(stream))
    return capture->add_event(RecordedStep::Kind::kReset, shared_from_this());
  check_runs("ExternalEvent.reset()", stream, false);
  forget();
}

void ExternalEvent::happen(c10::Stream stream) {
  check_runs("ExternalEvent.record()", stream, false);
  std::vector<std::function<void()>> waiting;
  {
    const std::lock_guard lock(streams().mutex);
    happened_ = true;
    for (auto entry = streams().stopped.begin(); entry != streams().stopped.end();) {
      if (entry->second.event.get() != this) {
        ++entry;
        continue;
      }
      waiting.push_back(std::move(entry->second.go_on));
      entry = streams().stopped.erase(entry);
      detail::watched.fetch_sub(1);
    }
  }
  std::exception_ptr failed;  // of the first stream that fails; the others go on all the same
  for (const auto& go_on : waiting) {
    try {
      with_place(go_on, [] { return "in what waited for an ExternalEvent and runs where that is recorded"; });
    } catch (...) {
      if (!failed) failed = std::current_exception();
    }
  }
  if (failed) std::rethrow_exception(failed);
}

bool ExternalEvent::wait_or_stop(c10::Stream stream, std::function<void()> go_on) {
  const std::lock_guard lock(streams().mutex);
  if (happened_) return true;
  streams().stopped.insert_or_assign(stream, Stopped{shared_from_this(), std::move(go_on)});
  detail::watched.fetch_add(1);
  return false;
}

void ExternalEvent::forget() {
  const std::lock_guard lock(streams().mutex);
  happened_ = false;
}

}  // namespace npugraph::capture
