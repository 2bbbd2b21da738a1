// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>

#include "base/env.h"

namespace npugraph {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"error", "warning", "info", "debug"};
constexpr int kUnset = -1;

std::atomic<int> g_level = kUnset;

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
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<LogLevel>(i);
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
