// SPDX-License-Identifier: Apache-2.0
// Every environment variable that the project reads in C++, parsed once. docs/env_vars.md is generated from
// environment_table().
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"

namespace npugraph {

// The most npu devices that a process can have. NPUGRAPH_DEVICES allows no more.
inline constexpr int kMaxDevices = 16;

struct Environment {
  LogLevel log_level = LogLevel::kWarning;
  int stdout_level = kStdoutError;  // TNG_LOG_LEVEL
  bool stdout_events = false;       // whether TNG_LOG_LEVEL is set
  bool verify = false;
  int threads = 0;  // 0: follow the host
  bool poison = false;
  bool red_zones = false;
  bool perf_map = false;
  std::string report_dir;            // empty: the current directory
  std::string target;                // empty: native
  std::string tune_bank;             // empty: in cache_directory()
  std::optional<std::string> cache;  // empty or "0": no cache; not set: see cache_directory()
  int devices = 0;                   // 0: as many as ASCEND_RT_VISIBLE_DEVICES lists, else 2
  int64_t device_memory = 0;         // bytes; 0: the memory that the host has left
  std::string device_name = "Ascend910B1";
  int soc_version = 220;
};

// The environment of the process, read at the first call; later changes of variables have no effect. Thread-safe. The
// first call also logs one warning for each variable with a value that is not allowed (the default is used) and one for
// unknown names that start with NPUGRAPH_.
const Environment& environment();

struct EnvironmentVariable {
  std::string_view name;
  std::string_view type;           // the allowed values, for people
  std::string_view default_value;  // for people
  std::string_view meaning;        // a sentence
  // Puts `value` into `out`; false if it is not allowed.
  bool (*parse)(std::string_view value, Environment& out);
  bool takes_empty = false;  // an empty value is parsed, too, and does not mean the default
};

std::span<const EnvironmentVariable> environment_table();

struct ParsedEnvironment {
  Environment values;
  std::vector<std::string> warnings;
};

// Parses (name, value) pairs. An empty value means the default unless the variable takes empty values. Unknown names
// that do not start with NPUGRAPH_ are ignored.
ParsedEnvironment parse_environment(std::span<const std::pair<std::string, std::string>> variables);

// The absolute path of the directory where generated code is kept between processes, whether or not it exists; empty if
// nothing is kept. Follows NPUGRAPH_CACHE in `values`, else the XDG base directories.
std::string cache_directory(const Environment& values);
// The same for the current variables of the process.
std::string cache_directory();

// The text of docs/env_vars.md.
std::string environment_document();

}  // namespace npugraph
