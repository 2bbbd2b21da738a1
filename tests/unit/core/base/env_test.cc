// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

namespace npugraph {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

TEST(Env, NothingSetMeansDefaults) {
  const ParsedEnvironment parsed = parse_environment({});
  EXPECT_EQ(parsed.values.log_level, LogLevel::kWarning);
  EXPECT_EQ(parsed.values.stdout_level, kStdoutError);
  EXPECT_FALSE(parsed.values.stdout_events);
  EXPECT_FALSE(parsed.values.verify);
  EXPECT_EQ(parsed.values.threads, 0);
  EXPECT_FALSE(parsed.values.poison);
  EXPECT_FALSE(parsed.values.red_zones);
  EXPECT_EQ(parsed.values.report_dir, "");
  EXPECT_FALSE(parsed.values.cache.has_value());
  EXPECT_EQ(parsed.values.devices, 0);
  EXPECT_EQ(parsed.values.device_memory, 0);
  EXPECT_EQ(parsed.values.device_name, "Ascend910B1");
  EXPECT_EQ(parsed.values.soc_version, 220);
  EXPECT_TRUE(parsed.warnings.empty());
}

TEST(Env, EveryVariableIsRead) {
  const Variables variables = {{"NPUGRAPH_LOG", "debug"},
                               {"TNG_LOG_LEVEL", "1"},
                               {"NPUGRAPH_VERIFY", "1"},
                               {"NPUGRAPH_THREADS", "3"},
                               {"NPUGRAPH_POISON", "1"},
                               {"NPUGRAPH_REPORT_DIR", "/reports"},
                               {"NPUGRAPH_CACHE", "/cache"},
                               {"TUNE_BANK_PATH", "/bank"},
                               {"NPUGRAPH_DEVICES", "8"},
                               {"NPUGRAPH_DEVICE_MEMORY", "3GiB"},
                               {"NPUGRAPH_DEVICE_NAME", "Ascend310P3"},
                               {"NPUGRAPH_SOC_VERSION", "202"},
                               {"NPUGRAPH_RED_ZONES", "1"},
                               {"NPUGRAPH_STRICT", "ascend"},
                               {"HOME", "/root"}};
  const ParsedEnvironment parsed = parse_environment(variables);
  EXPECT_EQ(parsed.values.log_level, LogLevel::kDebug);
  EXPECT_EQ(parsed.values.stdout_level, 1);
  EXPECT_TRUE(parsed.values.stdout_events);
  EXPECT_TRUE(parsed.values.verify);
  EXPECT_EQ(parsed.values.threads, 3);
  EXPECT_TRUE(parsed.values.poison);
  EXPECT_TRUE(parsed.values.red_zones);
  EXPECT_EQ(parsed.values.report_dir, "/reports");
  EXPECT_EQ(parsed.values.cache, "/cache");
  EXPECT_EQ(parsed.values.tune_bank, "/bank");
  EXPECT_EQ(parsed.values.devices, 8);
  EXPECT_EQ(parsed.values.device_memory, int64_t{3} << 30);
  EXPECT_EQ(parsed.values.device_name, "Ascend310P3");
  EXPECT_EQ(parsed.values.soc_version, 202);
  EXPECT_TRUE(parsed.warnings.empty());
}

TEST(Env, BytesTakeUnits) {
  for (auto [text, bytes] : {std::pair{"4096", int64_t{4096}}, {"1KiB", int64_t{1024}}, {"2TiB", int64_t{2} << 40}})
    EXPECT_EQ(parse_environment(Variables{{"NPUGRAPH_DEVICE_MEMORY", text}}).values.device_memory, bytes) << text;
}

TEST(Env, WrongValuesWarnAndKeepTheDefault) {
  for (auto [name, value] : {std::pair{"NPUGRAPH_LOG", "loud"},
                             {"NPUGRAPH_VERIFY", "yes"},
                             {"NPUGRAPH_THREADS", "-1"},
                             {"NPUGRAPH_THREADS", "2x"},
                             {"NPUGRAPH_THREADS", "1025"},
                             {"NPUGRAPH_POISON", "2"},
                             {"NPUGRAPH_STRICT", "1"},
                             {"NPUGRAPH_DEVICES", "0"},
                             {"NPUGRAPH_DEVICES", "17"},
                             {"NPUGRAPH_DEVICE_MEMORY", "-1"},
                             {"NPUGRAPH_DEVICE_MEMORY", "0"},
                             {"NPUGRAPH_DEVICE_MEMORY", "3GB"},
                             {"NPUGRAPH_DEVICE_MEMORY", "9999999TiB"},
                             {"NPUGRAPH_SOC_VERSION", "A2"}}) {
    const ParsedEnvironment parsed = parse_environment(Variables{{name, value}});
    ASSERT_EQ(parsed.warnings.size(), 1u) << name << "=" << value;
    EXPECT_EQ(parsed.values.threads, 0);
    EXPECT_FALSE(parsed.values.verify);
    EXPECT_EQ(parsed.values.devices, 0);
    EXPECT_EQ(parsed.values.device_memory, 0);
    EXPECT_EQ(parsed.values.soc_version, 220);
  }
  EXPECT_EQ(parse_environment(Variables{{"NPUGRAPH_VERIFY", "yes"}}).warnings[0],
            "NPUGRAPH_VERIFY=yes is ignored: allowed is 0 or 1; the default is 0");
}

TEST(Env, AWrongValueLeavesTheOthersAlone) {
  const ParsedEnvironment parsed = parse_environment(Variables{{"NPUGRAPH_VERIFY", "2"}, {"NPUGRAPH_POISON", "1"}});
  EXPECT_TRUE(parsed.values.poison);
}

TEST(Env, EmptyValuesMeanTheDefault) {
  const ParsedEnvironment parsed = parse_environment(Variables{{"NPUGRAPH_LOG", ""}, {"NPUGRAPH_THREADS", ""}});
  EXPECT_TRUE(parsed.warnings.empty());
}

TEST(Env, UnknownNamesGiveOneWarningThatListsTheKnown) {
  const ParsedEnvironment parsed = parse_environment(Variables{{"NPUGRAPH_LOGG", "1"}, {"NPUGRAPH_FAST", "1"}});
  ASSERT_EQ(parsed.warnings.size(), 1u);
  EXPECT_EQ(parsed.warnings[0],
            "unknown environment variables are ignored: NPUGRAPH_LOGG, NPUGRAPH_FAST; known are NPUGRAPH_LOG, "
            "TNG_LOG_LEVEL, NPUGRAPH_VERIFY, NPUGRAPH_THREADS, NPUGRAPH_POISON, NPUGRAPH_RED_ZONES, NPUGRAPH_PERF_MAP, "
            "NPUGRAPH_STRICT, NPUGRAPH_REPORT_DIR, NPUGRAPH_TARGET, "
            "NPUGRAPH_CACHE, TUNE_BANK_PATH, "
            "NPUGRAPH_DEVICES, NPUGRAPH_DEVICE_MEMORY, NPUGRAPH_DEVICE_NAME, NPUGRAPH_SOC_VERSION");
}

TEST(Env, TheCacheIsWhereItsVariableSaysElseWhereTheUserKeepsCaches) {
  const auto directory = [](std::optional<std::string> value) { return cache_directory({.cache = std::move(value)}); };
  EXPECT_EQ(directory("/some/where"), "/some/where");
  EXPECT_EQ(directory("here"), std::filesystem::current_path() / "here");
  EXPECT_EQ(directory("0"), "");
  EXPECT_EQ(directory(""), "");
  EXPECT_EQ(parse_environment(Variables{{"NPUGRAPH_CACHE", ""}}).values.cache, "");
  ::setenv("HOME", "/home/me", 1);
  ::setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(directory({}), "/caches/npugraph");
  ::setenv("XDG_CACHE_HOME", "caches", 1);
  EXPECT_EQ(directory({}), "/home/me/.cache/npugraph");
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(directory({}), "");
}

TEST(Env, ProcessEnvironmentIsReadOnce) { EXPECT_EQ(&environment(), &environment()); }

// The path is relative: tests run in the root of the source tree.
TEST(Env, DocumentAgreesWithTheTable) {
  std::ifstream file("docs/env_vars.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), environment_document()) << "write the text above to docs/env_vars.md";
}

}  // namespace
}  // namespace npugraph
