// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <gtest/gtest.h>

#include "base/hash.h"

namespace npugraph {
namespace {

TEST(Error, CatWritesItsArguments) { EXPECT_EQ(cat("a ", 1, ' ', 2.5, " ", std::string("b")), "a 1 2.5 b"); }

TEST(Error, FailedCheckAsksForAReport) {
  const int n = 3;
  try {
    NG_CHECK(n == 2, "got ", n);
    FAIL() << "the check did not throw";
  } catch (const InternalError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find("internal error: got 3 (check `n == 2` at "), 0u) << message;
    EXPECT_NE(message.find("error_test.cc:"), std::string::npos) << message;
    EXPECT_NE(message.find("This is a bug in npugraph"), std::string::npos) << message;
  }
}

TEST(Error, WhereAnErrorWasMetStandsBehindItsBeginning) {
  EXPECT_STREQ(met_at("task 3", InternalError(internal_error_text("n is 2"))).what(),
               "internal error: task 3: n is 2. This is a bug in npugraph.");
  EXPECT_STREQ(met_at("task 3", InternalError("n is 2")).what(), "internal error: task 3: n is 2");
}

TEST(Error, CheckEvaluatesOnceAndMessageOnlyOnFailure) {
  int conditions = 0;
  int messages = 0;
  auto message = [&] { return ++messages; };
  NG_CHECK(++conditions == 1, message());
  NG_CHECK(true);
  EXPECT_EQ(conditions, 1);
  EXPECT_EQ(messages, 0);
}

TEST(Hash, DependsOnOrderAndCount) {
  EXPECT_EQ(hash_of(1, 2), hash_of(1, 2));
  EXPECT_NE(hash_of(1, 2), hash_of(2, 1));
  EXPECT_NE(hash_of(0), hash_of(0, 0));
  EXPECT_NE(hash_of(), hash_of(0));
}

}  // namespace
}  // namespace npugraph
