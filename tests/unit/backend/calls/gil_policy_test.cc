// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include <gtest/gtest.h>

#include "backend/calls/compiled_function.h"

namespace npugraph::calls {
namespace {

using std::chrono::microseconds;

TEST(GilPolicy, GivesTheGilAwayUntilARunWasShort) {
  GilPolicy policy(/*may_wait=*/false);
  for (int i = 0; i < 2; ++i) {
    const GilPolicy::Run run = policy.next();
    EXPECT_TRUE(run.releases && run.timed);
    policy.note(microseconds(100));
  }
  policy.note(microseconds(5));
  EXPECT_FALSE(policy.next().releases);
}

TEST(GilPolicy, TimesSomeOfTheShortRuns) {
  GilPolicy policy(/*may_wait=*/false);
  policy.note(microseconds(5));
  uint32_t timed = 0;
  for (uint32_t i = 0; i < 3 * GilPolicy::kTimedEvery; ++i) {
    const GilPolicy::Run run = policy.next();
    EXPECT_FALSE(run.releases);
    timed += run.timed ? 1 : 0;
  }
  EXPECT_EQ(timed, 3u);
  policy.note(microseconds(100));
  EXPECT_TRUE(policy.next().releases);
}

TEST(GilPolicy, RunsThatMayWaitGiveTheGilAway) {
  GilPolicy policy(/*may_wait=*/true);
  policy.note(microseconds(1));
  EXPECT_TRUE(policy.next().releases);
}

}  // namespace
}  // namespace npugraph::calls
