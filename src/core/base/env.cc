// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include <unistd.h>

namespace npugraph {
namespace {

constexpr std::string_view kPrefix = "NPUGRAPH_";
constexpr int kMaxThreads = 1024;

bool parse_bool(std::string_view value, bool& out) {
  out = value == "1";
  return value == "0" || value == "1";
}

bool parse_level(std::string_view value, Environment& out) {
  auto level = parse_log_level(value);
  if (level) out.log_level = *level;
  return level.has_value();
}

bool parse_int(std::string_view value, int low, int high, int& out) {
  int number = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool valid = error == std::errc() && end == value.data() + value.size() && number >= low && number <= high;
  if (valid) out = number;
  return valid;
}

// Bytes: an integer, alone or with KiB, MiB, GiB or TiB.
bool parse_bytes(std::string_view value, int64_t& out) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const std::string_view unit = value.substr(static_cast<size_t>(end - value.data()));
  constexpr std::array<std::string_view, 5> kUnits = {"", "KiB", "MiB", "GiB", "TiB"};
  const auto found = std::find(kUnits.begin(), kUnits.end(), unit);
  const auto shift = 10 * (found - kUnits.begin());
  const bool valid = error == std::errc() && found != kUnits.end() && number > 0 && number <= (INT64_MAX >> shift);
  if (valid) out = number << shift;
  return valid;
}

template <auto kMember>
bool set_text(std::string_view value, Environment& out) {
  out.*kMember = value;
  return true;
}

constexpr std::array kTable = {
    EnvironmentVariable{"NPUGRAPH_LOG", "error, warning, info or debug", "warning",
                        "Messages up to this level are written to stderr, or to the handlers of Python's logger "
                        "`npugraph` where there are any.",
                        parse_level},
    EnvironmentVariable{"TNG_LOG_LEVEL", "an integer from 0 to 4", "3, without events",
                        "Messages of this level and above are printed to stdout, too: 0 debug, 1 info, 2 warning, 3 "
                        "error, 4 event. Events, which tell how long phases took, are printed wherever it is set.",
                        [](std::string_view value, Environment& out) {
                          out.stdout_events = parse_int(value, 0, kStdoutEvent, out.stdout_level);
                          return out.stdout_events;
                        }},
    EnvironmentVariable{"NPUGRAPH_VERIFY", "0 or 1", "0",
                        "1 verifies the graph after every pass, also where the options of a compile do not ask for it.",
                        [](std::string_view value, Environment& out) { return parse_bool(value, out.verify); }},
    EnvironmentVariable{
        "NPUGRAPH_THREADS", "an integer from 0 to 1024", "0",
        "Size of the worker pool; 0 follows the host: `torch.get_num_threads()` and the affinity of the "
        "process.",
        [](std::string_view value, Environment& out) { return parse_int(value, 0, kMaxThreads, out.threads); }},
    EnvironmentVariable{
        "NPUGRAPH_POISON", "0 or 1", "0",
        "1 fills memory that compiled graphs work in with NaN before it is written and when it is freed, so that a use "
        "before the write or after the free shows.",
        [](std::string_view value, Environment& out) { return parse_bool(value, out.poison); }},
    EnvironmentVariable{
        "NPUGRAPH_RED_ZONES", "0 or 1", "0",
        "1 puts bytes of a known pattern around all memory that compiled graphs work in, and looks at them "
        "after each task: one that has written beyond its memory raises an error with its name, and so does "
        "an operator of the user that writes what it only reads by its schema. Tasks of several streams run one after "
        "the other.",
        [](std::string_view value, Environment& out) { return parse_bool(value, out.red_zones); }},
    EnvironmentVariable{
        "NPUGRAPH_PERF_MAP", "0 or 1", "0",
        "1 writes the names and addresses of generated functions to /tmp/perf-PID.map, where Linux's perf reads them.",
        [](std::string_view value, Environment& out) { return parse_bool(value, out.perf_map); }},
    // Python reads it.
    EnvironmentVariable{
        "NPUGRAPH_STRICT", "ascend", "nothing",
        "ascend makes it an error of the compile if a graph of GE mode has what Ascend refuses: operators "
        "without a converter there, element types outside of the lists of Ascend IR, gears and scopes "
        "against the rules. `python -m npugraph ascend-check` lists all of it.",
        [](std::string_view value, Environment&) { return value == "ascend"; }},
    EnvironmentVariable{"NPUGRAPH_REPORT_DIR", "a directory", "the current directory",
                        "Where the text of the graph is written after an internal error.",
                        set_text<&Environment::report_dir>},
    EnvironmentVariable{
        "NPUGRAPH_TARGET", "native, or the name of a level of processors, such as x86-64-v3", "native",
        "The level that code is generated for. A level that the host lacks has no effect, and the warning names those "
        "that it has.",
        set_text<&Environment::target>},
    EnvironmentVariable{
        "NPUGRAPH_CACHE", "a directory, or 0", "`$XDG_CACHE_HOME/npugraph`, else `~/.cache/npugraph`",
        "Where generated machine code is kept between processes; 0, or an empty value, keeps none. A directory of "
        "another user, or that others may write to, is not used.",
        set_text<&Environment::cache>,
        /*takes_empty=*/true},
    EnvironmentVariable{"TUNE_BANK_PATH", "a directory", "the folder `tuned` of `NPUGRAPH_CACHE`",
                        "Where the plans are kept that tuning has measured (`aoe_config` of torchair). Later processes "
                        "take them from there.",
                        set_text<&Environment::tune_bank>},
    EnvironmentVariable{
        "NPUGRAPH_DEVICES", "an integer from 1 to 16", "as many as `ASCEND_RT_VISIBLE_DEVICES` lists, else 2",
        "How many npu devices there are. All of them are this host.",
        [](std::string_view value, Environment& out) { return parse_int(value, 1, kMaxDevices, out.devices); }},
    EnvironmentVariable{
        "NPUGRAPH_DEVICE_MEMORY", "bytes, or a number with KiB, MiB, GiB or TiB",
        "what the host and its cgroups have left, less a reserve",
        "Memory of each npu device; tensors beyond it raise torch.OutOfMemoryError. Where it is not set, they "
        "do so, too, where the host has not as much left by then.",
        [](std::string_view value, Environment& out) { return parse_bytes(value, out.device_memory); }},
    EnvironmentVariable{"NPUGRAPH_DEVICE_NAME", "a product name", "Ascend910B1",
                        "What torch.npu.get_device_name() says.", set_text<&Environment::device_name>},
    EnvironmentVariable{
        "NPUGRAPH_SOC_VERSION", "an integer from 100 to 999", "220",
        "What torch_npu.npu.get_soc_version() says: 200-205 Ascend 310P, 220-225 A2 (910B), 250-255 A3, 260 A5.",
        [](std::string_view value, Environment& out) { return parse_int(value, 100, 999, out.soc_version); }},
};

std::string known_names() {
  std::string names;
  for (const EnvironmentVariable& row : kTable) names += cat(names.empty() ? "" : ", ", row.name);
  return names;
}

auto find_row(std::string_view name) {
  return std::find_if(kTable.begin(), kTable.end(), [&](const auto& known) { return known.name == name; });
}

bool concerns_us(std::string_view name) { return name.starts_with(kPrefix) || find_row(name) != kTable.end(); }

std::vector<std::pair<std::string, std::string>> process_variables() {
  std::vector<std::pair<std::string, std::string>> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos && concerns_us(text.substr(0, equals)))
      out.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

}  // namespace

std::span<const EnvironmentVariable> environment_table() { return kTable; }

ParsedEnvironment parse_environment(std::span<const std::pair<std::string, std::string>> variables) {
  ParsedEnvironment out;
  std::string unknown;
  for (const auto& [name, value] : variables) {
    if (!concerns_us(name)) continue;
    const auto row = find_row(name);
    if (row == kTable.end()) {
      unknown += cat(unknown.empty() ? "" : ", ", name);
    } else if ((!value.empty() || row->takes_empty) && !row->parse(value, out.values)) {
      out.warnings.push_back(
          cat(name, "=", value, " is ignored: allowed is ", row->type, "; the default is ", row->default_value));
    }
  }
  if (!unknown.empty())
    out.warnings.push_back(cat("unknown environment variables are ignored: ", unknown, "; known are ", known_names()));
  return out;
}

const Environment& environment() {
  // The level is set before anything is logged, so that logging does not come back here.
  static const Environment values = [] {
    ParsedEnvironment parsed = parse_environment(process_variables());
    set_default_log_level(parsed.values.log_level);
    set_stdout_level(parsed.values.stdout_level, parsed.values.stdout_events);
    for (const std::string& warning : parsed.warnings) log_warning(warning);
    return parsed.values;
  }();
  return values;
}

std::string cache_directory(const Environment& values) {
  if (values.cache) {
    if (values.cache->empty() || *values.cache == "0") return "";
    return std::filesystem::absolute(*values.cache).string();
  }
  // Relative paths in these variables have no meaning.
  for (const auto& [variable, below] : {std::pair{"XDG_CACHE_HOME", "/npugraph"}, {"HOME", "/.cache/npugraph"}}) {
    const char* base = std::getenv(variable);
    if (base != nullptr && base[0] == '/') return cat(base, below);
  }
  return "";
}

std::string cache_directory() { return cache_directory(parse_environment(process_variables()).values); }

std::string environment_document() {
  std::string text =
      "# Environment variables\n\n"
      "Read once per process, at the first use. A value that is not allowed and an unknown name that starts with\n"
      "`NPUGRAPH_` give a warning and have no effect.\n\n"
      "| variable | values | default | meaning |\n"
      "|---|---|---|---|\n";
  for (const EnvironmentVariable& row : kTable)
    text += cat("| `", row.name, "` | ", row.type, " | ", row.default_value, " | ", row.meaning, " |\n");
  return text;
}

}  // namespace npugraph
