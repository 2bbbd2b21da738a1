// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/object_cache.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "temporary_folder.h"

namespace npugraph::codegen {
namespace {

namespace fs = std::filesystem;
using Object = std::vector<char>;

const Object kObject = {'o', 'b', 'j', '\0', 'e', 'c', 't'};

const target::Target& host() { return target::host_target(); }

class ObjectCacheTest : public testing::Test {
 protected:
  ObjectCacheTest() {
    set_log_level(LogLevel::kDebug);
    set_log_sink(
        [this](LogLevel level, const std::string& message) { log_.push_back(cat(name_of(level), ": ", message)); });
  }
  ~ObjectCacheTest() override {
    set_log_sink({});
    set_log_level(LogLevel::kWarning);
  }

  fs::path directory() const { return root_ / "a" / "b"; }
  ObjectCache cache(int64_t most_bytes = 1 << 20, std::string build = "build") const {
    return ObjectCache({.directory = directory(), .build = std::move(build), .most_bytes = most_bytes});
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    if (fs::exists(directory()))
      for (const auto& entry : fs::directory_iterator(directory())) out.push_back(entry.path());
    return out;
  }
  // Stores kObject as "text".
  fs::path store_one() const {
    cache().store(host(), "text", kObject);
    return files().at(0);
  }

  TemporaryFolder folder_;
  fs::path root_ = folder_.path();
  std::vector<std::string> log_;
};

TEST_F(ObjectCacheTest, GivesBackWhatAnotherOneStored) {
  EXPECT_EQ(cache().find(host(), "text"), std::nullopt);
  EXPECT_FALSE(fs::exists(directory()));
  cache().store(host(), "text", kObject);
  cache().store(host(), "empty", {});
  EXPECT_EQ(cache().find(host(), "text"), kObject);
  EXPECT_EQ(cache().find(host(), "empty"), Object());
  EXPECT_EQ(cache().find(host(), "texts"), std::nullopt);
  EXPECT_TRUE(log_.empty());
}

TEST_F(ObjectCacheTest, OtherBuildsAndTargetsHaveFilesOfTheirOwn) {
  store_one();
  EXPECT_EQ(cache(1 << 20, "other build").find(host(), "text"), std::nullopt);
  target::Target other = host();
  other.l2_bytes += 1;
  EXPECT_EQ(cache().find(other, "text"), std::nullopt);
  other = host();
  other.features += ",+more";
  EXPECT_EQ(cache().find(other, "text"), std::nullopt);
}

TEST_F(ObjectCacheTest, IsPrivate) {
  const fs::path file = store_one();
  EXPECT_EQ(fs::status(directory()).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(ObjectCacheTest, WithoutADirectoryOrABuildNothingIsKept) {
  for (const auto& options : {ObjectCache::Options{.directory = "", .build = "build"},
                              ObjectCache::Options{.directory = directory(), .build = ""}}) {
    const ObjectCache off(options);
    off.store(host(), "text", kObject);
    EXPECT_EQ(off.find(host(), "text"), std::nullopt);
    EXPECT_FALSE(off.is_on());
  }
  EXPECT_TRUE(files().empty());
}

TEST_F(ObjectCacheTest, DamagedFilesArePassedOverAndReplaced) {
  const fs::path file = store_one();
  const auto size = static_cast<int64_t>(fs::file_size(file));
  for (int64_t at = 0; at < size; ++at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(at);
    const int byte = stream.get();
    stream.seekp(at);
    stream.put(static_cast<char>(byte ^ 1));
    stream.close();
    EXPECT_EQ(cache().find(host(), "text"), std::nullopt) << at;
    store_one();
    EXPECT_EQ(cache().find(host(), "text"), kObject);
  }
  for (int64_t bytes = 0; bytes < size; ++bytes) {
    fs::resize_file(file, static_cast<uintmax_t>(bytes));
    EXPECT_EQ(cache().find(host(), "text"), std::nullopt) << bytes;
    store_one();
  }
  EXPECT_EQ(cache().find(host(), "text"), kObject);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(ObjectCacheTest, AFileUnderAnotherNameIsNotTaken) {
  const fs::path file = store_one();
  cache().store(host(), "other", {'x'});
  for (const fs::path& path : files())
    if (path != file) fs::copy_file(file, path, fs::copy_options::overwrite_existing);
  EXPECT_EQ(cache().find(host(), "other"), std::nullopt);
}

TEST_F(ObjectCacheTest, WhatOthersMayWriteToIsNotRead) {
  const fs::path file = store_one();
  for (const auto& [path, others] : {std::pair(directory(), fs::perms::group_write), {file, fs::perms::others_write}}) {
    log_.clear();
    const auto before = fs::status(path).permissions();
    fs::permissions(path, before | others);
    const ObjectCache distrusting = cache();
    EXPECT_EQ(distrusting.find(host(), "text"), std::nullopt);
    EXPECT_EQ(distrusting.find(host(), "text"), std::nullopt);
    ASSERT_EQ(log_.size(), 1u);
    EXPECT_EQ(log_[0], cat("warning: generated code is not read from ", path.string(),
                           ": others may write it: run chmod go-w on it"));
    fs::permissions(path, before);
    EXPECT_EQ(cache().find(host(), "text"), kObject);
  }
}

TEST_F(ObjectCacheTest, WhatBelongsToAnotherUserIsNotRead) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const fs::path file = store_one();
  for (const fs::path& path : {directory(), file}) {
    ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
    EXPECT_EQ(cache().find(host(), "text"), std::nullopt);
    cache().store(host(), "more", kObject);
    EXPECT_EQ(files().size(), path == file ? 2u : 1u);
    ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  }
  EXPECT_EQ(cache().find(host(), "text"), kObject);
}

TEST_F(ObjectCacheTest, LinksAreNotFollowed) {
  const fs::path file = store_one();
  fs::rename(file, root_ / "elsewhere");
  fs::create_symlink(root_ / "elsewhere", file);
  EXPECT_EQ(cache().find(host(), "text"), std::nullopt);
  store_one();
  EXPECT_FALSE(fs::is_symlink(file));
  EXPECT_EQ(cache().find(host(), "text"), kObject);
}

TEST_F(ObjectCacheTest, ADiskThatRefusesIsOneWarning) {
  fs::create_directories(directory());
  fs::permissions(directory(), fs::perms::owner_all);
  const ObjectCache refused = cache();
  // A directory in the place of the file lets the write fail, like a full or read-only disk. Unlike permissions, it
  // also stops root.
  const fs::path file = store_one();
  fs::remove(file);
  fs::create_directories(file / "in the way");
  refused.store(host(), "text", kObject);
  refused.store(host(), "text", kObject);
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_TRUE(log_[0].starts_with(cat("warning: generated code is not kept in ", directory().string(), ": ")))
      << log_[0];
  EXPECT_EQ(files().size(), 1u);
  EXPECT_EQ(refused.find(host(), "text"), std::nullopt);
}

TEST_F(ObjectCacheTest, ADirectoryThatIsAFileIsNoCache) {
  std::ofstream(root_ / "a") << "file";
  cache().store(host(), "text", kObject);
  EXPECT_EQ(cache().find(host(), "text"), std::nullopt);
  ASSERT_FALSE(log_.empty());
  EXPECT_TRUE(log_[0].ends_with(": Not a directory")) << log_[0];
}

TEST_F(ObjectCacheTest, OldFilesGoWhenThereIsTooMuch) {
  constexpr int64_t kMost = 10000;
  const ObjectCache bounded = cache(kMost);
  fs::create_directories(directory());
  fs::permissions(directory(), fs::perms::owner_all);
  std::ofstream(directory() / "not ours.o") << std::string(2 * kMost, 'x');
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 40; ++i) {
    const auto before = files();
    bounded.store(host(), cat("text ", i), Object(1000, 'x'));
    for (const fs::path& path : files())
      if (std::ranges::find(before, path) == before.end())
        fs::last_write_time(path, now - std::chrono::seconds(100 - i));
  }
  EXPECT_TRUE(fs::exists(directory() / "not ours.o"));
  EXPECT_LE(static_cast<int64_t>(files().size() - 1) * 1000, kMost);
  EXPECT_GE(static_cast<int64_t>(files().size() - 1) * 1000, kMost / 2);
  EXPECT_EQ(bounded.find(host(), "text 0"), std::nullopt);
  EXPECT_EQ(bounded.find(host(), "text 39"), Object(1000, 'x'));
}

TEST_F(ObjectCacheTest, WhatIsUsedStays) {
  const fs::path file = store_one();
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(file, now - std::chrono::hours(100));
  cache().find(host(), "text");
  EXPECT_GE(fs::last_write_time(file), now - std::chrono::hours(1));
}

TEST_F(ObjectCacheTest, FilesThatWereNeverFinishedGo) {
  const fs::path file = store_one();
  const fs::path abandoned = file.string() + ".abcdef", young = file.string() + ".ghijkl";
  for (const fs::path& path : {abandoned, young}) std::ofstream(path) << "x";
  fs::last_write_time(abandoned, fs::file_time_type::clock::now() - std::chrono::hours(2));
  cache(16).store(host(), "other", {});  // with this limit, each write looks for old files
  EXPECT_FALSE(fs::exists(abandoned));
}

TEST_F(ObjectCacheTest, ThreadsAndProcessesWriteAtOnce) {
  const auto work = [this] {
    const ObjectCache mine = cache(4000);
    for (int i = 0; i < 200; ++i) {
      const std::string text = cat("text ", i % 7);
      const Object object(static_cast<size_t>(100 * (i % 7)), static_cast<char>(i % 7));
      mine.store(host(), text, object);
      const auto found = mine.find(host(), text);
      if (found && *found != object) return false;
    }
    return true;
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work() ? 0 : 1);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 2; ++i) threads.emplace_back([&] { wrong += work() ? 0 : 1; });
  for (std::thread& thread : threads) thread.join();
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(wrong, 0);
  for (const fs::path& path : files()) EXPECT_EQ(path.extension(), ".o");
}

TEST(ObjectCache, IsOffInTests) { EXPECT_FALSE(object_cache().is_on()); }

TEST(BuildId, IsThatOfTheProgram) { EXPECT_EQ(build_id().size(), 20u); }

}  // namespace
}  // namespace npugraph::codegen
