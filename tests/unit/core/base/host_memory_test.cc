// SPDX-License-Identifier: Apache-2.0
#include "base/host_memory.h"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "temporary_folder.h"

namespace npugraph {

namespace {

// A directory with the files of /proc and /sys that host_memory_left() reads.
class HostMemory : public testing::Test {
 protected:
  HostMemory() {
    write("/proc/meminfo", "MemTotal:       8000000 kB\nMemFree:         100000 kB\nMemAvailable:    4000000 kB\n");
  }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void write_v2(const std::string& cgroup, const std::string& max, int64_t current, int64_t files) {
    const std::string directory = "/sys/fs/cgroup" + cgroup;
    write(directory + "/memory.max", max + "\n");
    write(directory + "/memory.current", std::to_string(current) + "\n");
    write(directory + "/memory.stat",
          "anon 5\nfile 7\ninactive_file " + std::to_string(files - 100) + "\nactive_file 100\n");
  }
  void write_v1(const std::string& cgroup, int64_t limit, int64_t usage, int64_t files) {
    const std::string directory = "/sys/fs/cgroup/memory" + cgroup;
    write(directory + "/memory.limit_in_bytes", std::to_string(limit) + "\n");
    write(directory + "/memory.usage_in_bytes", std::to_string(usage) + "\n");
    write(directory + "/memory.stat",
          "inactive_file 1\ntotal_inactive_file " + std::to_string(files - 100) + "\ntotal_active_file 100\n");
  }

  TemporaryFolder folder_;
  std::string root_ = folder_.path();
};

constexpr const char* kMountsOfV2 =
    "22 27 0:21 / /proc rw,nosuid - proc proc rw\n"
    "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kMountsOfV1 =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";

TEST_F(HostMemory, IsWhatTheHostHasAvailable) { EXPECT_EQ(host_memory_left(root_), int64_t{4000000} << 10); }

TEST_F(HostMemory, HasNoLimitWhereTheSystemSaysNothing) {
  std::filesystem::remove_all(root_ + "/proc");
  EXPECT_EQ(host_memory_left(root_), INT64_MAX);
}

TEST_F(HostMemory, OfACgroupIsItsLimitLessWhatCannotBeDropped) {
  write("/proc/self/mountinfo", kMountsOfV2);
  write("/proc/self/cgroup", "0::/user/job\n");
  write_v2("/user/job", "1000000", 400000, 150000);
  EXPECT_EQ(host_memory_left(root_), 750000);
}

TEST_F(HostMemory, IsLimitedByCgroupsAround) {
  write("/proc/self/mountinfo", kMountsOfV2);
  write("/proc/self/cgroup", "0::/user/job\n");
  write_v2("/user/job", "max", 400000, 150000);
  write_v2("/user", "800000", 700000, 200000);
  EXPECT_EQ(host_memory_left(root_), 300000);
}

TEST_F(HostMemory, OfACgroupThatIsFullIsZero) {
  write("/proc/self/mountinfo", kMountsOfV2);
  write("/proc/self/cgroup", "0::/\n");
  write_v2("", "800000", 900000, 100);
  EXPECT_EQ(host_memory_left(root_), 0);
}

TEST_F(HostMemory, OfTheFirstVersionOfCgroups) {
  write("/proc/self/mountinfo", kMountsOfV1);
  write("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/job\n1:cpu:/other\n0::/\n");
  write_v1("/job", 1000000, 400000, 150000);
  write_v1("", 9223372036854771712, 5000000, 150000);
  EXPECT_EQ(host_memory_left(root_), 750000);
}

TEST_F(HostMemory, InAContainerThatSeesItsOwnPartOfTheHierarchy) {
  write("/proc/self/mountinfo", "35 31 0:32 /docker/5f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  write("/proc/self/cgroup", "4:memory:/docker/5f\n");
  write_v1("", 1000000, 400000, 100000);
  EXPECT_EQ(host_memory_left(root_), 700000);
}

TEST_F(HostMemory, OfThisProcessIsPositive) { EXPECT_GT(host_memory_left(), 0); }

constexpr int64_t kBytes = 1 << 20;
constexpr int64_t kPage = 4096;

TEST(Pages, PopulatedMemoryIsThere) {
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const bytes = static_cast<volatile std::byte*>(memory);
  bytes[kPage - 1] = std::byte{7};
  populate_pages(static_cast<std::byte*>(memory) + kPage - 1, kBytes - kPage);  // neither end is at a page boundary
  EXPECT_TRUE(bytes[kPage - 1] == std::byte{7});
  std::vector<unsigned char> resident(kBytes / kPage);
  ASSERT_EQ(mincore(memory, kBytes, resident.data()), 0);
  populate_pages(memory, 0);
  munmap(memory, kBytes);
  // Linux refuses this advice on memory that is not there. User-mode emulators (make aarch64) accept and ignore any.
  if (madvise(nullptr, kPage, MADV_POPULATE_WRITE) == 0) GTEST_SKIP() << "an emulator ignores advice on memory";
  for (const unsigned char page : resident) EXPECT_EQ(page & 1, 1);
}

}  // namespace

}  // namespace npugraph
