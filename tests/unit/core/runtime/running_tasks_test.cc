// SPDX-License-Identifier: Apache-2.0
#include "runtime/watch/running_tasks.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

namespace npugraph::runtime {
namespace {

class RunningTasks : public testing::Test {
 protected:
  void SetUp() override { record_running_tasks(path_); }
  void TearDown() override {
    record_running_tasks("");
    std::filesystem::remove(path_);
  }

  // The entries of the file, without time and thread.
  std::vector<std::string> lines() const {
    std::ifstream in(path_);
    std::vector<std::string> found;
    for (std::string line; std::getline(in, line);) {
      line.erase(line.find_last_not_of(' ') + 1);
      if (const size_t at = line.find(": "); at != std::string::npos) found.push_back(line.substr(at + 2));
    }
    return found;
  }

  const std::string path_ = std::filesystem::temp_directory_path() / cat("running_tasks_test_", getpid());
};

TEST_F(RunningTasks, TellsWhatRunsAndSinceWhen) {
  EXPECT_TRUE(running_tasks_recorded());
  EXPECT_TRUE(lines().empty());
  const auto size = std::filesystem::file_size(path_);
  begin_running("outer");
  EXPECT_EQ(lines(), std::vector<std::string>{"outer"});
  begin_running("inner");
  std::thread([&] {
    begin_running("beside");
    EXPECT_EQ(lines(), (std::vector<std::string>{"inner", "beside"}));
    end_running();
  }).join();
  EXPECT_EQ(lines(), std::vector<std::string>{"inner"});
  end_running();
  EXPECT_EQ(lines(), std::vector<std::string>{"outer"});
  end_running();
  end_running();  // ends a run that began before recording
  EXPECT_TRUE(lines().empty());
  begin_running(std::string(2000, 'x'));
  EXPECT_EQ(lines().size(), 1u);
  end_running();
  EXPECT_EQ(std::filesystem::file_size(path_), size);
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0600));
}

TEST_F(RunningTasks, TheChildOfAForkRecordsNothing) {
  const pid_t child = fork();
  if (child == 0) {
    begin_running("child");
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(lines().empty());
}

TEST_F(RunningTasks, StopsAndRefusesFilesThatCannotBeMade) {
  EXPECT_THROW(record_running_tasks("/nowhere/file"), UserError);
  EXPECT_TRUE(running_tasks_recorded());
  record_running_tasks("");
  EXPECT_FALSE(running_tasks_recorded());
  begin_running("unseen");
  end_running();
  EXPECT_TRUE(lines().empty());
}

}  // namespace
}  // namespace npugraph::runtime
