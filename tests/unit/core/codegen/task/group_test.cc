// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "codegen/task/compound.h"

namespace npugraph::codegen {
namespace {

// A host with three threads, each of which takes one index of a parallel loop.
struct GroupHost {
  std::string error;
  int64_t copied = 0;
  int loops = 0;
  ng_host table{
      .self = this,
      .workers = 3,
      .parallel_for =
          [](const ng_host* host, int64_t begin, int64_t end, int64_t, void (*body)(void*, int64_t, int64_t),
             void* arg) {
            ++static_cast<GroupHost*>(host->self)->loops;
            std::vector<std::jthread> threads;
            for (int64_t i = begin; i < end; ++i) threads.emplace_back([=] { body(arg, i, i + 1); });
          },
      .set_error = [](const ng_host* host, const char* text) { static_cast<GroupHost*>(host->self)->error = text; },
      .count_copied = [](const ng_host* host, int64_t n) { static_cast<GroupHost*>(host->self)->copied += n; }};
};

// A part that fills its workspace, and checks that the call is its own.
struct Filler {
  int64_t bytes;
  bool fails = false;
  bool refuses = false;
  int workers = 0;       // of the latest run
  int64_t value = 0;     // of its scalar
  int32_t rank = 0;      // of its buffer
  bool is_whole = true;  // nobody else wrote into the workspace meanwhile
  int bound = 0;
  int destroyed = 0;
};

ng_task filling_task(Filler& filler) {
  return {.context = &filler,
          .run =
              [](void* context, void*, ng_call* call) {
                Filler& self = *static_cast<Filler*>(context);
                self.workers = call->host->workers;
                self.value = call->scalars[0].i;
                self.rank = call->buffers[0].rank;
                const auto mark = static_cast<char>(self.value);
                auto* space = static_cast<char*>(call->workspace);
                struct Range {
                  char* space;
                  char mark;
                } range{space, mark};
                call->host->parallel_for(
                    call->host, 0, self.bytes, 1 << 20,
                    [](void* arg, int64_t first, int64_t last) {
                      const auto& r = *static_cast<Range*>(arg);
                      std::fill(r.space + first, r.space + last, r.mark);
                    },
                    &range);
                std::this_thread::yield();
                self.is_whole = std::all_of(space, space + self.bytes, [&](char c) { return c == mark; });
                call->host->count_copied(call->host, 8);
                if (!self.fails) return NG_OK;
                call->host->set_error(call->host, "IndexError: too far");
                return NG_ERROR;
              },
          .bind =
              [](void* context, const ng_call*, void** state) {
                Filler& self = *static_cast<Filler*>(context);
                if (self.refuses) return NG_ERROR;
                ++self.bound;
                *state = context;
                return NG_OK;
              },
          .unbind = [](void* context, void*) { --static_cast<Filler*>(context)->bound; },
          .workspace = [](void* context, const ng_call*) { return static_cast<Filler*>(context)->bytes; },
          .destroy = [](void* context) { ++static_cast<Filler*>(context)->destroyed; }};
}

// A group of parts that each take `nanoseconds`, bound to a call.
class Bound {
 public:
  Bound(std::vector<Filler>& fillers, double nanoseconds) : buffers_(fillers.size()), scalars_(fillers.size()) {
    std::vector<Part> parts;
    for (size_t i = 0; i < fillers.size(); ++i) {
      buffers_[i].rank = static_cast<int32_t>(i);
      scalars_[i].i = 'a' + static_cast<int64_t>(i);
      parts.push_back({.task = filling_task(fillers[i]), .buffers = 1, .scalars = 1, .label = std::string(1, 'a' + i)});
    }
    task_ = make_group(std::move(parts), {.parts = std::vector(fillers.size(), nanoseconds), .region = 500});
    call_ = {.buffers = buffers_.data(),
             .scalars = scalars_.data(),
             .host = &host.table,
             .num_buffers = static_cast<uint32_t>(fillers.size()),
             .num_scalars = static_cast<uint32_t>(fillers.size())};
    bytes = task_.workspace(task_.context, &call_);
    space_.resize(bytes < 0 ? 0 : bytes);
    call_.workspace = space_.data();
    status = task_.bind(task_.context, &call_, &state_);
  }
  ~Bound() {
    task_.unbind(task_.context, state_);
    task_.destroy(task_.context);
  }
  Bound(const Bound&) = delete;
  ng_status run() { return task_.run(task_.context, state_, &call_); }

  GroupHost host;
  int64_t bytes = 0;
  ng_status status = NG_OK;

 private:
  std::vector<ng_buffer> buffers_;
  std::vector<ng_scalar> scalars_;
  std::vector<char> space_;
  ng_task task_{};
  ng_call call_{};
  void* state_ = nullptr;
};

TEST(Group, SmallPartsRunAtTheSameTimeInOneThreadEach) {
  std::vector<Filler> fillers(5, {.bytes = 1000});
  {
    Bound group(fillers, 400);
    ASSERT_EQ(group.status, NG_OK);
    EXPECT_EQ(group.bytes, 5 * 1024);  // a workspace of its own for each, from whole cache lines on
    for (int run = 0; run < 20; ++run) {
      ASSERT_EQ(group.run(), NG_OK);
      for (size_t i = 0; i < fillers.size(); ++i) {
        EXPECT_EQ(fillers[i].workers, 1);
        EXPECT_EQ(fillers[i].value, 'a' + static_cast<int64_t>(i));
        EXPECT_EQ(fillers[i].rank, static_cast<int32_t>(i));
        EXPECT_TRUE(fillers[i].is_whole);
      }
    }
    EXPECT_EQ(group.host.loops, 20);
    EXPECT_EQ(group.host.copied, 20 * 5 * 8);
  }
  for (const Filler& filler : fillers) EXPECT_EQ(std::pair(filler.bound, filler.destroyed), std::pair(0, 1));
}

TEST(Group, PartsThatFillAllThreadsRunInTurn) {
  std::vector<Filler> fillers(2, {.bytes = 64});
  Bound group(fillers, 100'000);
  ASSERT_EQ(group.run(), NG_OK);
  EXPECT_EQ(fillers[0].workers, 3);
  EXPECT_EQ(fillers[1].value, 'b');
}

TEST(Group, OneThreadRunsThePartsInTurn) {
  std::vector<Filler> fillers(3, {.bytes = 64});
  Bound group(fillers, 400);
  group.host.table.workers = 1;
  ASSERT_EQ(group.run(), NG_OK);
  EXPECT_EQ(group.host.loops, 3);
  group.host.table.workers = 3;  // decides again
  ASSERT_EQ(group.run(), NG_OK);
  EXPECT_EQ(group.host.loops, 4);
}

TEST(Group, TheFirstPartThatFailsIsNamed) {
  std::vector<Filler> fillers(4, {.bytes = 64});
  fillers[1].fails = fillers[3].fails = true;
  Bound group(fillers, 400);
  EXPECT_EQ(group.run(), NG_ERROR);
  EXPECT_EQ(group.host.error, "IndexError: too far (b)");
}

TEST(Group, APartThatRefusesSizesRefusesThemForAll) {
  std::vector<Filler> fillers(2, {.bytes = 64});
  fillers[1].refuses = true;
  fillers[1].bytes = -1;
  {
    const Bound group(fillers, 400);
    EXPECT_EQ(group.bytes, -1);
    EXPECT_EQ(group.status, NG_ERROR);
  }
  EXPECT_EQ(fillers[0].bound, 0);
}

TEST(Group, IsFasterWhereThreadsWouldWaitForEachOther) {
  const auto together = [](std::vector<double> parts, int32_t workers) {
    return is_faster_together({.parts = std::move(parts), .region = 500}, workers);
  };
  EXPECT_TRUE(together({400, 400, 400, 400}, 2));
  EXPECT_FALSE(together({400, 400}, 1));
  EXPECT_FALSE(together({100, 100}, 2));     // starting a thread takes longer
  EXPECT_TRUE(together({5000, 5000}, 2));    // no thread waits in between
  EXPECT_FALSE(together({50'000, 500}, 2));  // one part is nearly all of the work
  EXPECT_FALSE(together({50'000, 50'000, 50'000}, 2));
  EXPECT_FALSE(together({50'000, 50'000}, 16));  // most threads would have nothing to do
}

}  // namespace
}  // namespace npugraph::codegen
