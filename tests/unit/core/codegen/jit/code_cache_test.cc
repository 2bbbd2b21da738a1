// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/code_cache.h"

#include <gtest/gtest.h>

namespace npugraph::codegen {
namespace {

TEST(CodeCache, KeepsWhatIsUsedAndDropsTheRestWhenAsked) {
  static auto* cache = new CodeCache<int>;
  int made = 0;
  const auto get = [&](const std::string& text) {
    return cache->get(target::host_target(), text, [&] { return ++made; });
  };
  const auto used = get("used");
  get("unused");
  EXPECT_EQ(get("used"), used);
  EXPECT_EQ(*get("unused"), 2);
  EXPECT_EQ(made, 2);
  drop_unused_code();
  EXPECT_EQ(get("used"), used);
  EXPECT_EQ(*get("unused"), 3);
}

}  // namespace
}  // namespace npugraph::codegen
