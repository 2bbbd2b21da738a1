// SPDX-License-Identifier: Apache-2.0
#include "device/capture/registry.h"

#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/capture/capture.h"
#include "device/capture/external_event.h"

namespace npugraph::capture {

std::atomic<int64_t> detail::watched = 0;

namespace {

struct Captures {
  std::mutex mutex;
  std::unordered_map<c10::Stream, std::shared_ptr<Capture>> of_stream;
  std::vector<const CompiledCapture*> compiled;
};

Captures& captures() {
  static auto* all = new Captures;
  return *all;
}

// An action of the host: the name of the call, and a description for error messages.
struct Action {
  const char* what;
  const char* does;
};
constexpr const char* kWaits = "wait for the device";
constexpr const char* kAllocates = "take raw memory of the device, or give back what is cached,";

[[noreturn]] void refuse(const Action& action, ErrorMode mode) {
  const bool global = mode == ErrorMode::kGlobal;
  TORCH_CHECK(false, action.what, ": the host cannot ", action.does,
              " while a graph is being captured with capture_error_mode=\"", global ? "global" : "thread_local", "\"; ",
              global ? "\"thread_local\" or " : "", "\"relaxed\" allows it");
}

void check_compiled_captures(const Action& action) {
  std::optional<ErrorMode> mode;
  {
    const std::lock_guard lock(captures().mutex);
    for (const CompiledCapture* compiled : captures().compiled) {
      if (compiled->forbids()) mode = compiled->mode();
    }
  }
  if (mode) refuse(action, *mode);
}

// Waiting for a captured stream is never allowed; for other actions the mode decides. A refused action has not been
// done, so the capture goes on.
void check_captures(const Action& action, const std::function<bool(c10::Stream)>& waits_for) {
  std::optional<ErrorMode> broken;
  bool own = false;
  {
    const std::lock_guard lock(captures().mutex);
    for (const auto& [stream, capture] : captures().of_stream) {
      const ErrorMode mode = capture->mode();
      const bool by_mode = mode == ErrorMode::kGlobal ||
                           (mode == ErrorMode::kThreadLocal && capture->thread() == std::this_thread::get_id());
      const bool is_own = waits_for(stream);
      if (!is_own && !by_mode) continue;
      broken = mode;
      own = own || is_own;
    }
  }
  if (!broken) return check_compiled_captures(action);
  TORCH_CHECK(
      !own, action.what,
      ": the host cannot wait for a stream that is being captured, whose work has not run. Do it before the capture, "
      "or after a replay");
  refuse(action, *broken);
}

}  // namespace

void begin(std::shared_ptr<Capture> capture) {
  const std::lock_guard lock(captures().mutex);
  const c10::Stream stream = capture->origin();
  TORCH_CHECK(captures().of_stream.count(stream) == 0, "stream ", stream.id(), " of ", stream.device(),
              " is already being captured");
  captures().of_stream.emplace(stream, std::move(capture));
  detail::watched.fetch_add(1);
}

void end(const Capture& capture) {
  const std::lock_guard lock(captures().mutex);
  const auto gone =
      std::erase_if(captures().of_stream, [&](const auto& entry) { return entry.second.get() == &capture; });
  detail::watched.fetch_sub(static_cast<int64_t>(gone));
}

std::shared_ptr<Capture> capture_of(c10::Stream stream) {
  if (!is_watching()) return nullptr;
  const std::lock_guard lock(captures().mutex);
  const auto found = captures().of_stream.find(stream);
  return found == captures().of_stream.end() ? nullptr : found->second;
}

std::shared_ptr<Capture> recorder_of(c10::Stream stream) {
  if (is_inside()) return nullptr;
  check_runs("a launch", stream, /*whole_device=*/false);
  return capture_of(stream);
}

void check_host_may_wait(const char* what, c10::Stream stream) {
  if (!is_watching() || is_inside()) return;
  check_captures({what, kWaits}, [&](c10::Stream captured) { return captured == stream; });
  check_runs(what, stream, /*whole_device=*/false);
}

void check_host_may_wait(const char* what, c10::DeviceIndex device) {
  if (!is_watching() || is_inside()) return;
  check_captures({what, kWaits}, [&](c10::Stream captured) { return captured.device_index() == device; });
  check_runs(what, c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::DeviceType::PrivateUse1, device)),
             /*whole_device=*/true);
}

void check_host_may_allocate(const char* what) {
  if (!is_watching() || is_inside()) return;
  check_captures({what, kAllocates}, [](c10::Stream) { return false; });
}

CompiledCapture::CompiledCapture(ErrorMode mode) : mode_(mode) {
  const std::lock_guard lock(captures().mutex);
  captures().compiled.push_back(this);
  detail::watched.fetch_add(1);
}

CompiledCapture::~CompiledCapture() {
  const std::lock_guard lock(captures().mutex);
  std::erase(captures().compiled, this);
  detail::watched.fetch_sub(1);
}

bool CompiledCapture::forbids() const {
  return mode_ == ErrorMode::kGlobal || (mode_ == ErrorMode::kThreadLocal && thread_ == std::this_thread::get_id());
}

Mark mark(c10::Stream stream) {
  const auto capture = capture_of(stream);
  if (!capture) return {};
  return {.capture = capture, .seen = capture->progress(stream)};
}

void wait_for(const Mark& mark, c10::Stream stream) {
  if (!is_watching()) return;
  const auto capture = mark.capture.lock();
  if (!capture || capture_of(capture->origin()) != capture) return;  // work outside of captures has already run
  const auto own = capture_of(stream);
  TORCH_CHECK(!own || own == capture, "stream ", stream.id(), " of ", stream.device(),
              " is being captured and cannot wait for an event of another capture");
  if (!own) {
    const std::lock_guard lock(captures().mutex);
    captures().of_stream.emplace(stream, capture);
    detail::watched.fetch_add(1);
  }
  capture->join(stream, mark.seen);
}

void check_host_may_wait(const char* what, const Mark& mark) {
  const auto capture = mark.capture.lock();
  if (capture && capture_of(capture->origin()) == capture) check_host_may_wait(what, capture->origin());
}

}  // namespace npugraph::capture
