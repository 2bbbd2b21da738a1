// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace npugraph {
namespace {

// Collects messages. The destructor restores the level and the default sink.
class LogTest : public testing::Test {
 protected:
  LogTest() : level_before_(log_level()) {
    set_log_sink([this](LogLevel level, const std::string& message) {
      std::lock_guard lock(mutex_);
      lines_.push_back(cat(name_of(level), ": ", message));
    });
  }
  ~LogTest() override {
    set_log_sink({});
    set_log_level(level_before_);
  }

  LogLevel level_before_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

TEST_F(LogTest, LevelDecides) {
  set_log_level(LogLevel::kInfo);
  log_error("e", 1);
  log_warning("w");
  log_info("i");
  log_debug("d");
  EXPECT_EQ(lines_, (std::vector<std::string>{"error: e1", "warning: w", "info: i"}));
  EXPECT_TRUE(log_enabled(LogLevel::kInfo));
  EXPECT_FALSE(log_enabled(LogLevel::kDebug));
}

TEST_F(LogTest, DefaultLevelDoesNotOverrideASetOne) {
  set_log_level(LogLevel::kDebug);
  set_default_log_level(LogLevel::kError);
  EXPECT_EQ(log_level(), LogLevel::kDebug);
}

TEST_F(LogTest, SinkMayLogItself) {
  set_log_level(LogLevel::kWarning);
  int depth = 0;
  set_log_sink([&](LogLevel, const std::string&) {
    if (++depth < 3) log_warning("again");
  });
  log_warning("first");
  EXPECT_EQ(depth, 3);
}

TEST_F(LogTest, ManyThreadsLogWholeMessages) {
  set_log_level(LogLevel::kWarning);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i) log_warning("message");
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lines_, std::vector<std::string>(400, "warning: message"));
}

TEST(Log, StderrGetsOneLineEach) {
  testing::internal::CaptureStderr();
  write_log(LogLevel::kWarning, "take care");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "npugraph: warning: take care\n");
}

// Logs one message of each level and returns the text that is printed to stdout.
std::string printed_from(int least, bool events) {
  set_stdout_level(least, events);
  testing::internal::CaptureStdout();
  log_debug("d");
  log_info("i");
  log_warning("w");
  log_error("e", 1);
  log_event("v");
  set_stdout_level(kStdoutError, false);
  return testing::internal::GetCapturedStdout();
}

TEST_F(LogTest, StdoutGetsItsLevelAndAbove) {
  const std::string lines[] = {"[DEBUG] npugraph: d\n", "[INFO] npugraph: i\n", "[WARNING] npugraph: w\n",
                               "[ERROR] npugraph: e1\n", "[EVENT] npugraph: v\n"};
  std::string from;
  for (int least = kStdoutEvent; least >= 0; --least) {
    from.insert(0, lines[least]);
    EXPECT_EQ(printed_from(least, true), from);
  }
  EXPECT_EQ(printed_from(kStdoutError, false), lines[kStdoutError]);
}

TEST_F(LogTest, TheSinkGetsNoEvents) {
  set_log_level(LogLevel::kDebug);
  log_event("v");
  EXPECT_TRUE(lines_.empty());
}

TEST(Log, LevelsHaveNames) {
  for (auto level : {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo, LogLevel::kDebug})
    EXPECT_EQ(parse_log_level(name_of(level)), level);
  EXPECT_EQ(parse_log_level("verbose"), std::nullopt);
}

}  // namespace
}  // namespace npugraph
