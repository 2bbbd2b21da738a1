// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <gtest/gtest.h>

#include "target/target.h"

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

}  // namespace
}  // namespace npugraph::target
