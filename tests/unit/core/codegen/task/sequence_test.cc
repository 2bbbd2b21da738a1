// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "codegen/task/compound.h"

namespace npugraph::codegen {
namespace {

// A task that records in `story` which of its functions are called.
struct Step {
  std::string* story;
  char name;
  bool fails = false;
  int64_t bytes = 0;
  bool refuses = false;
};

ng_task step_task(Step step) {
  return {.context = new Step(step),
          .run =
              [](void* context, void* state, ng_call* call) {
                const Step& step = *static_cast<Step*>(context);
                *step.story += step.name;
                EXPECT_EQ(state, context);
                EXPECT_EQ(call->buffers[0].rank, step.name - 'a');
                EXPECT_EQ(call->scalars[0].i, step.name);
                EXPECT_EQ(call->num_buffers, 1u);
                EXPECT_EQ(call->num_scalars, 1u);
                if (!step.fails) return NG_OK;
                call->host->set_error(call->host, "IndexError: too far");
                return NG_ERROR;
              },
          .bind =
              [](void* context, const ng_call* call, void** state) {
                const Step& step = *static_cast<Step*>(context);
                EXPECT_EQ(call->buffers[0].rank, step.name - 'a');
                if (step.refuses) return NG_ERROR;
                *step.story += "b";
                *state = context;
                return NG_OK;
              },
          .unbind = [](void* context, void*) { *static_cast<Step*>(context)->story += "u"; },
          .workspace = [](void* context, const ng_call*) { return static_cast<Step*>(context)->bytes; },
          .destroy =
              [](void* context) {
                *static_cast<Step*>(context)->story += "d";
                delete static_cast<Step*>(context);
              }};
}

// A host with threads that records which of them ran a range.
struct SequenceHost {
  std::string error;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  int64_t copied = 0;
  ng_host table{
      .self = this,
      .workers = 4,
      .parallel_for =
          [](const ng_host* host, int64_t begin, int64_t end, int64_t grain, void (*body)(void*, int64_t, int64_t),
             void* arg) {
            std::vector<std::jthread> threads;
            for (int64_t i = begin; i < end; i += grain) {
              threads.emplace_back([=] {
                auto& self = *static_cast<SequenceHost*>(host->self);
                {
                  const std::lock_guard lock(self.mutex);
                  self.threads.insert(std::this_thread::get_id());
                }
                body(arg, i, std::min(i + grain, end));
              });
            }
          },
      .set_error = [](const ng_host* host, const char* text) { static_cast<SequenceHost*>(host->self)->error = text; },
      .count_copied = [](const ng_host* host, int64_t n) { static_cast<SequenceHost*>(host->self)->copied += n; }};
};

// A call with one buffer and one scalar for each part: 'a', 'b', ...
struct Call {
  std::vector<ng_buffer> buffers;
  std::vector<ng_scalar> scalars;
  ng_call call{};
  explicit Call(int32_t parts, const ng_host* host) : buffers(parts), scalars(parts) {
    for (int32_t i = 0; i < parts; ++i) buffers[i].rank = i, scalars[i].i = 'a' + i;
    call = {.buffers = buffers.data(),
            .scalars = scalars.data(),
            .host = host,
            .num_buffers = static_cast<uint32_t>(parts),
            .num_scalars = static_cast<uint32_t>(parts)};
  }
};

Part part(Step step) { return {.task = step_task(step), .buffers = 1, .scalars = 1, .label = {step.name}}; }

TEST(Sequence, RunsItsPartsInOrder) {
  std::string story;
  SequenceHost host;
  Call call(3, &host.table);
  const ng_task task =
      make_sequence({part({&story, 'a', false, 64}), part({&story, 'b', false, 256}), part({&story, 'c', false, 128})});
  EXPECT_EQ(task.workspace(task.context, &call.call), 256);
  void* state = nullptr;
  ASSERT_EQ(task.bind(task.context, &call.call, &state), NG_OK);
  EXPECT_EQ(task.run(task.context, state, &call.call), NG_OK);
  EXPECT_EQ(story, "bbbabc");
  ASSERT_EQ(task.bind(task.context, &call.call, &state), NG_OK);  // binds again, as for other sizes
  task.unbind(task.context, state);
  task.destroy(task.context);
  EXPECT_EQ(story, "bbbabcbbbuuuddd");
}

TEST(Sequence, AFailureEndsItAndNamesThePart) {
  std::string story;
  SequenceHost host;
  Call call(3, &host.table);
  const ng_task task = make_sequence({part({&story, 'a'}), part({&story, 'b', true}), part({&story, 'c'})});
  void* state = nullptr;
  ASSERT_EQ(task.bind(task.context, &call.call, &state), NG_OK);
  EXPECT_EQ(task.run(task.context, state, &call.call), NG_ERROR);
  EXPECT_EQ(story, "bbbab");
  EXPECT_EQ(host.error, "IndexError: too far (b)");
  task.unbind(task.context, state);
  task.destroy(task.context);
}

TEST(Sequence, APartThatRefusesSizesRefusesThemForAll) {
  std::string story;
  Call call(2, nullptr);
  const ng_task task = make_sequence({part({&story, 'a'}), part({&story, 'b', false, -1, true})});
  EXPECT_EQ(task.workspace(task.context, &call.call), -1);
  void* state = nullptr;
  EXPECT_EQ(task.bind(task.context, &call.call, &state), NG_ERROR);
  task.unbind(task.context, state);
  task.destroy(task.context);
  EXPECT_EQ(story, "budd");
}

// Adds 1 to each of 1000 counters, in ranges of ten.
ng_status run_in_parallel(void* context, void*, ng_call* call) {
  EXPECT_LE(call->host->workers, 4);
  call->host->parallel_for(
      call->host, 0, 1000, 10,
      [](void* arg, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) static_cast<std::atomic<int>*>(arg)[i] += 1;
      },
      context);
  call->host->count_copied(call->host, 8);
  return NG_OK;
}

TEST(Sequence, LimitsThreads) {
  for (const int64_t workers : {0, 1, 2, 3, 100}) {
    std::vector<std::atomic<int>> counts(1000);
    SequenceHost host;
    Call call(1, &host.table);
    const ng_task task = make_sequence({{.task = {.context = counts.data(), .run = run_in_parallel}}}, workers);
    void* state = nullptr;
    ASSERT_EQ(task.bind(task.context, &call.call, &state), NG_OK);
    ASSERT_EQ(task.run(task.context, state, &call.call), NG_OK);
    EXPECT_TRUE(std::ranges::all_of(counts, [](const auto& count) { return count == 1; })) << workers;
    EXPECT_EQ(host.copied, 8);
    const bool limited = workers > 0 && workers < 4;
    EXPECT_LE(host.threads.size(), limited ? static_cast<size_t>(workers) : size_t{100}) << workers;
    EXPECT_EQ(host.threads.empty(), workers == 1);
    task.unbind(task.context, state);
    task.destroy(task.context);
  }
}

}  // namespace
}  // namespace npugraph::codegen
