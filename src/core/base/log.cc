// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <memory>
#include <mutex>

#include "base/env.h"

namespace npugraph {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"error", "warning", "info", "debug", "event"};
constexpr int kUnset = -1;

std::atomic<int> g_level = kUnset;
std::atomic<int> g_stdout_least = kStdoutError;
std::atomic<bool> g_stdout_events = false;

struct SinkHolder {
  std::mutex mutex;
  std::shared_ptr<const LogSink> sink;
};

// Never destroyed: threads may log while the process ends.
SinkHolder& sink_holder() {
  static auto* holder = new SinkHolder;
  return *holder;
}

}  // namespace

std::string_view name_of(LogLevel level) { return kNames[static_cast<size_t>(level)]; }

std::optional<LogLevel> parse_log_level(std::string_view name) {
  for (const LogLevel level : {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo, LogLevel::kDebug})
    if (name_of(level) == name) return level;
  return std::nullopt;
}

LogLevel log_level() {
  if (g_level.load(std::memory_order_relaxed) == kUnset) set_default_log_level(environment().log_level);
  return static_cast<LogLevel>(g_level.load(std::memory_order_relaxed));
}

void set_log_level(LogLevel level) { g_level.store(static_cast<int>(level), std::memory_order_relaxed); }

void set_default_log_level(LogLevel level) {
  int unset = kUnset;
  g_level.compare_exchange_strong(unset, static_cast<int>(level), std::memory_order_relaxed);
}

void set_stdout_level(int least, bool events) {
  g_stdout_least.store(least, std::memory_order_relaxed);
  g_stdout_events.store(events, std::memory_order_relaxed);
}

bool is_printed(LogLevel level) {
  log_level();  // reads the environment
  if (level == LogLevel::kEvent) return g_stdout_events.load(std::memory_order_relaxed);
  return kStdoutError - static_cast<int>(level) >= g_stdout_least.load(std::memory_order_relaxed);
}

void print_log(LogLevel level, const std::string& message) {
  std::string name(name_of(level));
  std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::toupper(letter); });
  const std::string line = cat("[", name, "] npugraph: ", message, "\n");
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

void set_log_sink(LogSink sink) {
  auto shared = sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr;
  std::lock_guard lock(sink_holder().mutex);
  sink_holder().sink = std::move(shared);
}

void write_log(LogLevel level, const std::string& message) {
  std::shared_ptr<const LogSink> sink;
  {
    std::lock_guard lock(sink_holder().mutex);
    sink = sink_holder().sink;
  }
  sink ? (*sink)(level, message) : write_log_to_stderr(level, message);
}

void write_log_to_stderr(LogLevel level, const std::string& message) {
  const std::string line = cat("npugraph: ", name_of(level), ": ", message, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace npugraph
