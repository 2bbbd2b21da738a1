// SPDX-License-Identifier: Apache-2.0
// A recorder of time spans for chrome://tracing and Perfetto. Off by default; a Span then costs one relaxed load.
// All functions are thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace npugraph {

// The clock of traces, reports and timings: nanoseconds on the steady clock, from a start that is fixed within a
// process. Thread-safe.
inline int64_t now_ns() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count();
}

}  // namespace npugraph

namespace npugraph::trace {

using ArgValue = std::variant<int64_t, double, std::string>;
using Args = std::vector<std::pair<std::string, ArgValue>>;

// Times are those of now_ns(). `thread` is a number of thread_id().
struct Event {
  std::string name;
  std::string category;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int thread = 0;
  Args args;
};

namespace internal {
extern std::atomic<bool> g_enabled;
}

inline bool enabled() { return internal::g_enabled.load(std::memory_order_relaxed); }

// A small number for the calling thread, the same for its whole life.
int thread_id();
// The name of the calling thread in traces.
void set_thread_name(std::string name);

// Records a span that was timed by the caller, if tracing is on.
void record(Event event);

// Starts nest; events are kept from the first start until the last stop.
void start();
// Returns the events since the matching start, in the order in which their spans ended. UserError if there was no
// start.
std::vector<Event> stop();

// The Chrome trace format: complete events with `ts` and `dur` in microseconds.
std::string to_json(const std::vector<Event>& events);
// UserError if the file cannot be written.
void write(const std::vector<Event>& events, const std::string& path);

// Records the time from its construction to its destruction if tracing is on at construction. Belongs to one thread.
class Span {
 public:
  Span(std::string_view name, std::string_view category);
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  void arg(std::string_view key, ArgValue value);

 private:
  void begin(std::string_view name, std::string_view category);
  void end();
  bool active_ = false;
  Event event_;
};

inline Span::Span(std::string_view name, std::string_view category) {
  if (enabled()) [[unlikely]]
    begin(name, category);
}

inline Span::~Span() {
  if (active_) [[unlikely]]
    end();
}

}  // namespace npugraph::trace
