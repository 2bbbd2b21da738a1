// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/overlap.h"

#include <random>

#include <gtest/gtest.h>

#include "runtime/runtime_test_util.h"

namespace npugraph::runtime {
namespace {

struct Range {
  bool written = false;
  uintptr_t first = 0;
  int64_t bytes = 0;
};

bool any_overlap(const std::vector<Range>& ranges) {
  for (const Range& a : ranges) {
    for (const Range& b : ranges) {
      if (&a == &b || !a.written || a.bytes == 0 || b.bytes == 0) continue;
      if (a.first < b.first + b.bytes && b.first < a.first + a.bytes) return true;
    }
  }
  return false;
}

TEST(OverlapCheck, AgreesWithTheDefinition) {
  std::mt19937 random(1);
  const auto below = [&](uint32_t n) { return random() % n; };
  int overlapping = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<Range> ranges(1 + below(30));
    std::vector<bool> written;
    for (Range& range : ranges) written.push_back(range.written = below(4) == 0);
    OverlapCheck check(written);
    std::vector<int32_t> moved;
    for (size_t i = 0; i < ranges.size(); ++i) {
      ranges[i].first = below(600) * 4;
      ranges[i].bytes = below(8) * 4;
      check.set(static_cast<int32_t>(i), reinterpret_cast<void*>(ranges[i].first), ranges[i].bytes);
      moved.push_back(static_cast<int32_t>(i));
    }
    EXPECT_EQ(check.overlaps(moved), any_overlap(ranges));
    overlapping += any_overlap(ranges);
    if (any_overlap(ranges)) continue;

    // One more range moves; the others are known to be free of overlaps.
    const auto i = static_cast<int32_t>(below(static_cast<uint32_t>(ranges.size())));
    ranges[i].first = below(600) * 4;
    check.set(i, reinterpret_cast<void*>(ranges[i].first), ranges[i].bytes);
    EXPECT_EQ(check.overlaps(std::vector<int32_t>{i}), any_overlap(ranges));
  }
  EXPECT_GT(overlapping, 100);
  EXPECT_LT(overlapping, 1900);
}

constexpr const char* kMutates = R"(npugraph.program 4 @mutates {
  buffer b0 input(0) live(0, 0)
  buffer b1 input(1) live(0, 0)
  input 0 "x" b0 : f32[4]{1}
  input 1 "cache" b1 : f32[4]{1} mutated
  task 0 kernel "double" {
    read b0+0 : f32[4]{1}
    write b1+0 : f32[4]{1}
    args(%0)
  }
  segment 1
})";

TEST(Overlap, IsNoticedBeforeAnythingRuns) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kMutates);
  Floats memory{1, 2, 3, 4, 5, 6, 7, 8};
  const auto at = [&](size_t i) { return BoundInput{.data = &memory[i], .object = &memory[i]}; };
  EXPECT_EQ(Results(*executable, host, {at(0), at(2)}).result.status, RunStatus::kInputsOverlap);
  EXPECT_EQ(Results(*executable, host, {at(0), at(2)}).result.status, RunStatus::kInputsOverlap);
  EXPECT_EQ(memory, Floats({1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(Results(*executable, host, {at(0), at(4)}).result.status, RunStatus::kOk);
  EXPECT_EQ(memory, Floats({1, 2, 3, 4, 2, 4, 6, 8}));
  EXPECT_EQ(Results(*executable, host, {at(3), at(4)}).result.status, RunStatus::kInputsOverlap);
  EXPECT_EQ(Results(*executable, host, {at(4), at(0)}).result.status, RunStatus::kOk);
  EXPECT_EQ(memory, Floats({4, 8, 12, 16, 2, 4, 6, 8}));
}

TEST(Overlap, OfInputsThatAreOnlyReadIsFine) {
  TestHost host;
  host.define("add", [](ng_call& call) {
    for (int i = 0; i < 4; ++i) floats(call.buffers[2])[i] = floats(call.buffers[0])[i] + floats(call.buffers[1])[i];
    return NG_OK;
  });
  const auto executable = make(host, R"(npugraph.program 4 @reads {
    buffer b0 input(0) live(0, 0)
    buffer b1 input(1) live(0, 0)
    buffer b2 output bytes(16) live(0, 0)
    input 0 "x" b0 : f32[4]{1}
    input 1 "y" b1 : f32[4]{1}
    task 0 kernel "add" {
      read b0+0 : f32[4]{1}
      read b1+0 : f32[4]{1}
      write b2+0 : f32[4]{1}
      args(%0, %1)
    }
    segment 1
    output tensor b2+0 : f32[4]{1}
  })");
  Floats memory{1, 2, 3, 4, 5};
  const Results r(*executable, host, {{.data = &memory[0]}, {.data = &memory[1]}});
  EXPECT_EQ(r.values(0), Floats({3, 5, 7, 9}));
}

}  // namespace
}  // namespace npugraph::runtime
