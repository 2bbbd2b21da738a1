// SPDX-License-Identifier: Apache-2.0
#include "base/trace.h"

#include <fstream>
#include <map>
#include <mutex>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/error.h"

namespace npugraph::trace {
namespace {

struct Recorder {
  std::mutex mutex;
  std::vector<size_t> starts;  // index of the first event after each start that has no stop yet
  std::vector<Event> events;   // empty if there is no such start
  std::map<int, std::string> thread_names;
};

// Never destroyed: threads may record while the process ends.
Recorder& recorder() {
  static auto* instance = new Recorder;
  return *instance;
}

double microseconds(int64_t ns) { return static_cast<double>(ns) * 1e-3; }

nlohmann::json to_json(const ArgValue& value) {
  return std::visit([](const auto& v) { return nlohmann::json(v); }, value);
}

nlohmann::json to_json(const Event& event, int process) {
  nlohmann::json args = nlohmann::json::object();
  for (const auto& [key, value] : event.args) args[key] = to_json(value);
  return {{"name", event.name},
          {"cat", event.category},
          {"ph", "X"},
          {"pid", process},
          {"tid", event.thread},
          {"ts", microseconds(event.begin_ns)},
          {"dur", microseconds(event.end_ns - event.begin_ns)},
          {"args", std::move(args)}};
}

nlohmann::json thread_name_json(int thread, const std::string& name, int process) {
  return {{"name", "thread_name"}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

namespace internal {
std::atomic<bool> g_enabled = false;
}

void start() {
  std::lock_guard lock(recorder().mutex);
  recorder().starts.push_back(recorder().events.size());
  internal::g_enabled.store(true, std::memory_order_relaxed);
}

std::vector<Event> stop() {
  Recorder& r = recorder();
  std::lock_guard lock(r.mutex);
  if (r.starts.empty()) throw UserError("the trace is not running: stop() needs a start() before it");
  const auto first = r.events.begin() + static_cast<ptrdiff_t>(r.starts.back());
  r.starts.pop_back();
  std::vector<Event> since(first, r.events.end());
  if (r.starts.empty()) {
    internal::g_enabled.store(false, std::memory_order_relaxed);
    r.events = {};
  }
  return since;
}

int thread_id() {
  static std::atomic<int> next = 0;
  thread_local const int id = next.fetch_add(1, std::memory_order_relaxed);
  return id;
}

void set_thread_name(std::string name) {
  std::lock_guard lock(recorder().mutex);
  recorder().thread_names[thread_id()] = std::move(name);
}

void record(Event event) {
  if (!enabled()) return;
  std::lock_guard lock(recorder().mutex);
  if (!recorder().starts.empty()) recorder().events.push_back(std::move(event));
}

std::string to_json(const std::vector<Event>& events) {
  const int process = getpid();
  nlohmann::json list = nlohmann::json::array();
  {
    std::lock_guard lock(recorder().mutex);
    for (const auto& [thread, name] : recorder().thread_names) list.push_back(thread_name_json(thread, name, process));
  }
  for (const Event& event : events) list.push_back(to_json(event, process));
  const nlohmann::json document = {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(list)}};
  // Names may hold bytes that are no UTF-8; those are replaced.
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void write(const std::vector<Event>& events, const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << to_json(events);
  file.close();
  if (!file) throw UserError(cat("cannot write the trace to '", path, "'"));
}

void Span::begin(std::string_view name, std::string_view category) {
  active_ = true;
  event_.name = name;
  event_.category = category;
  event_.thread = thread_id();
  event_.begin_ns = now_ns();
}

void Span::end() {
  event_.end_ns = now_ns();
  record(std::move(event_));
}

void Span::arg(std::string_view key, ArgValue value) {
  if (active_) event_.args.emplace_back(key, std::move(value));
}

}  // namespace npugraph::trace
