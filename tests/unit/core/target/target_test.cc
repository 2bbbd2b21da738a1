// SPDX-License-Identifier: Apache-2.0
#include "target/target.h"

#include <set>

#include <gtest/gtest.h>

#include "target/costs.h"

namespace npugraph::target {

namespace {

TEST(HostTargets, RiseFromTheBaselineToTheProcessorItself) {
  const std::vector<Target> all = host_targets();
  ASSERT_FALSE(all.empty());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].lanes(DType::kF32) * 32, all[i].vector_bits);
    EXPECT_GE(all[i].l2_bytes, all[i].l1_bytes);
    if (i == 0) continue;
    EXPECT_GE(all[i].vector_bits, all[i - 1].vector_bits);
  }
}

TEST(HostTargets, AreOfOneArchitectureAndHaveDifferentNames) {
  std::set<std::string> names;
  for (const Target& target : host_targets()) {
    EXPECT_EQ(target.arch, host_target().arch);
    EXPECT_TRUE(names.insert(target.level).second) << target.level;
  }
}

TEST(HostTarget, IsOneOfTheTargetsOfTheHost) {
  const std::vector<Target> all = host_targets();
  EXPECT_NE(std::find(all.begin(), all.end(), host_target()), all.end());
}

TEST(Costs, BytesCostMoreTheFartherTheyLie) {
  const Target target{.l1_bytes = 48 << 10, .l2_bytes = 1 << 20, .l3_bytes = 32 << 20};
  double last = -1;
  for (const double bytes : {48e3, 1e6, 32e6, 64e6}) {
    EXPECT_GT(byte_cost(target, bytes), last);
    last = byte_cost(target, bytes);
  }
}

TEST(Costs, OneThreadDoesWhatIsNotWorthTwo) {
  EXPECT_EQ(share_of(0, 1), 0);
  EXPECT_EQ(share_of(1, 1), 1);
  EXPECT_EQ(share_of(100, 51), 100);
  EXPECT_EQ(ranges_of(100, 51), 1);
}

TEST(Costs, TheBusierOfTwoThreadsHasAtLeastHalf) {
  for (const int64_t items : {2, 3, 7, 64, 1000}) {
    for (const int64_t grain : {1, 2, 5, 100}) {
      const double share = share_of(items, grain);
      EXPECT_GE(share, static_cast<double>(items) / 2) << items << " " << grain;
      EXPECT_LE(share, 1.25 * static_cast<double>(items)) << items << " " << grain;
    }
  }
}

TEST(Costs, SmallerRangesAreSharedMoreEvenly) {
  EXPECT_LT(share_of(64, 8), share_of(64, 32));
  EXPECT_LT(share_of(4, 1), share_of(3, 1) * 4 / 3);
}

}  // namespace

}  // namespace npugraph::target
