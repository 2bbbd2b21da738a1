// SPDX-License-Identifier: Apache-2.0
// Messages to people: each has a level and goes to stderr, or to a sink that the host sets. The level that is logged
// comes from NPUGRAPH_LOG. Messages that TNG_LOG_LEVEL asks for are also printed to stdout.
// All functions are thread-safe. Callers hold no lock: a sink may wait for locks of its own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace npugraph {

// Events tell how long phases took. They go to stdout only: the Python side passes them to its logger itself.
enum class LogLevel : int { kError, kWarning, kInfo, kDebug, kEvent };

std::string_view name_of(LogLevel level);  // "error", "warning", "info", "debug", "event"
// nullopt for "event" and for unknown names.
std::optional<LogLevel> parse_log_level(std::string_view name);

// Messages above this level are dropped.
LogLevel log_level();
void set_log_level(LogLevel level);
// Sets the level unless it was set before.
void set_default_log_level(LogLevel level);

// The levels of TNG_LOG_LEVEL: 0 debug, 1 info, 2 warning, 3 error, 4 event.
inline constexpr int kStdoutError = 3;
inline constexpr int kStdoutEvent = 4;
// Messages whose number in TNG_LOG_LEVEL is at least `least` are printed to stdout, events only if `events` is true.
void set_stdout_level(int least, bool events);
bool is_printed(LogLevel level);

// Receives every message that is not dropped, without a line end. Called in the thread that logs, possibly in several
// at once and without a lock held, so that it may take locks of its own. Must not throw.
using LogSink = std::function<void(LogLevel level, const std::string& message)>;

// An empty sink means stderr, one line "npugraph: <level>: <message>" each.
void set_log_sink(LogSink sink);

inline bool log_enabled(LogLevel level) { return level <= log_level(); }
// Prints "[INFO] npugraph: message" and a line end to stdout.
void print_log(LogLevel level, const std::string& message);
void write_log(LogLevel level, const std::string& message);
void write_log_to_stderr(LogLevel level, const std::string& message);

// The arguments are written one after the other, as by cat(), and only if the level is on.
template <typename... Args>
void log_message(LogLevel level, const Args&... args) {
  if (is_printed(level)) print_log(level, cat(args...));
  if (log_enabled(level)) write_log(level, cat(args...));
}
template <typename... Args>
void log_error(const Args&... args) {
  log_message(LogLevel::kError, args...);
}
template <typename... Args>
void log_warning(const Args&... args) {
  log_message(LogLevel::kWarning, args...);
}
template <typename... Args>
void log_info(const Args&... args) {
  log_message(LogLevel::kInfo, args...);
}
template <typename... Args>
void log_debug(const Args&... args) {
  log_message(LogLevel::kDebug, args...);
}
template <typename... Args>
void log_event(const Args&... args) {
  log_message(LogLevel::kEvent, args...);
}

}  // namespace npugraph
