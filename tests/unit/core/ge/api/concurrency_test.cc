// SPDX-License-Identifier: Apache-2.0
// Sessions, runs and changes in several threads, and what keeps them in order or apart.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "ge/api/api_testing.h"
#include "ge/api/run/gate.h"
#include "ge/api/run/run_queue.h"
#include "runtime/watch/ledger.h"

namespace npugraph::ge {

// What keeps runs in order, and changes apart from them.

namespace {

TEST(Gate, ClosesWithoutWaitingForRuns) {
  Gate gate;
  Gate::Run run = gate.enter(false);
  ASSERT_NE(run, nullptr);
  EXPECT_EQ(gate.close_if_idle(), nullptr);
  run.reset();
  Gate::Change change = gate.close_if_idle();
  EXPECT_NE(change, nullptr);
  change.reset();
  EXPECT_NE(gate.close(), nullptr);
  EXPECT_NE(gate.enter(true), nullptr);
}

TEST(Gate, LetsNothingInWhenShut) {
  Gate gate;
  gate.shut();
  EXPECT_EQ(gate.enter(true), nullptr);
  EXPECT_EQ(gate.close(), nullptr);
  EXPECT_EQ(gate.close_if_idle(), nullptr);
}

// There is work in the queue at all times, each of which came after wait() or is waited for.
TEST(RunQueue, WaitsForWorkThatCameBefore) {
  std::atomic<bool> waited = false;
  RunQueue queue;
  std::atomic<int> done = 0;
  const std::function<void()> work = [&] {
    ++done;
    if (!waited) queue.add(work);
  };
  queue.add(work);
  queue.wait();
  EXPECT_GE(done, 1);
  waited = true;
  queue.wait();
}

}  // namespace

namespace {

class Threads : public EngineApi {};

TEST_F(Threads, UseSessionsWithOptionsOfTheirOwn) {
  const std::vector<float> expected = result_of(perceptron(8), {rows_of(8)});
  runtime::TaskLog::instance().start();
  using Options = std::map<::ge::AscendString, ::ge::AscendString>;
  const auto use = [&](const Options& options) {
    ::ge::Session session(options);
    EXPECT_OK(session.AddGraph(0, perceptron(8)));
    for (int i = 0; i < 20; ++i) {
      Tensors outputs;
      EXPECT_OK(session.RunGraph(0, {rows_of(8)}, outputs));
      EXPECT_EQ(floats(outputs.at(0)), expected);
    }
    return cat("g_", session.GetSessionId(), "_0");
  };
  auto limited = std::async(std::launch::async, use, Options{{"ge.aicoreNum", "3|1"}});
  auto free = std::async(std::launch::async, use, Options());
  const std::string limited_graph = limited.get();
  const std::string free_graph = free.get();
  int tasks = 0;
  for (const runtime::TaskRecord& record : runtime::TaskLog::instance().stop()) {
    const bool is_limited = record.artifact == limited_graph;
    if (!is_limited && record.artifact != free_graph) continue;
    const runtime::NamedLimits limits = {{"cube_core_num", 3}, {"vector_core_num", 1}};
    EXPECT_EQ(record.limits, is_limited ? limits : runtime::NamedLimits());
    ++tasks;
  }
  EXPECT_GE(tasks, 40);
}

// Sessions that say nothing else have the options of the engine.
TEST(Engine, GivesItsOptionsToSessions) {
  ASSERT_OK(::ge::GEInitialize({{"ge.aicoreNum", "3|1"}}));
  runtime::TaskLog::instance().start();
  const auto run = [](const std::map<::ge::AscendString, ::ge::AscendString>& options) {
    ::ge::Session session(options);
    EXPECT_OK(session.AddGraph(0, perceptron(8)));
    Tensors outputs;
    EXPECT_OK(session.RunGraph(0, {rows_of(8)}, outputs));
    return cat("g_", session.GetSessionId(), "_0");
  };
  const std::string as_engine = run({}), own = run({{"ge.aicoreNum", "2|2"}});
  int tasks = 0;
  for (const runtime::TaskRecord& record : runtime::TaskLog::instance().stop()) {
    const runtime::NamedLimits of_engine = {{"cube_core_num", 3}, {"vector_core_num", 1}};
    const runtime::NamedLimits of_session = {{"cube_core_num", 2}, {"vector_core_num", 2}};
    if (record.artifact != as_engine && record.artifact != own) continue;
    EXPECT_EQ(record.limits, record.artifact == own ? of_session : of_engine);
    ++tasks;
  }
  EXPECT_GE(tasks, 4);
  EXPECT_OK(::ge::GEFinalize());
}

// Runs of one graph in several threads, while its memory moves between two places and back to the engine.
TEST_F(Threads, RunWhileMemoryMoves) {
  const std::vector<float> expected = result_of(perceptron(8), {rows_of(8)});
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(1, perceptron(8)));
  ASSERT_OK(session.CompileGraph(1));
  const auto summary = session.GetCompiledGraphSummary(1);
  size_t constants = 0;
  size_t features = 0;
  ASSERT_OK(summary->GetConstMemorySize(constants));
  ASSERT_OK(summary->GetFeatureMemorySize(features));
  const auto run = [&] {
    ::ge::Stream stream;
    for (int i = 0; i < 50; ++i) {
      Tensors outputs;
      EXPECT_OK(session.RunGraphWithStreamAsync(1, i % 2 == 0 ? &stream : nullptr, {rows_of(8)}, outputs));
      EXPECT_OK(stream.Synchronize());
      EXPECT_EQ(floats(outputs.at(0)), expected);
    }
  };
  std::vector<std::future<void>> runs;
  for (int i = 0; i < 3; ++i) runs.push_back(std::async(std::launch::async, run));
  for (int i = 0; i < 10; ++i) {
    const GuardedMemory constant_memory(constants, GuardedMemory::Place::kEnd);
    const GuardedMemory feature_memory(features, GuardedMemory::Place::kEnd);
    EXPECT_OK(session.SetGraphConstMemoryBase(1, constant_memory.data(), constants));
    EXPECT_OK(session.UpdateGraphFeatureMemoryBase(1, feature_memory.data(), features));
    EXPECT_OK(session.SetGraphConstMemoryBase(1, nullptr, 0));
    EXPECT_OK(session.UpdateGraphFeatureMemoryBase(1, nullptr, 0));
  }
  for (auto& future : runs) future.get();
}

// Keeps other threads than the one that made it until it is opened.
class SlowAllocator : public ::ge::Allocator {
 public:
  ::ge::MemBlock* Malloc(size_t size) override {
    if (std::this_thread::get_id() != maker_) {
      reached.count_down();
      opened.wait();
    }
    return new ::ge::MemBlock(*this, std::aligned_alloc(64, (size + 63) / 64 * 64), size);
  }
  void Free(::ge::MemBlock* block) override {
    std::free(block->GetAddr());
    delete block;
  }

  std::latch reached{1};
  std::latch opened{1};

 private:
  const std::thread::id maker_ = std::this_thread::get_id();
};

TEST_F(Threads, RemoveGraphsThatRun) {
  const auto allocator = std::make_shared<SlowAllocator>();
  ::ge::Stream stream;
  ::ge::Session session({});
  ASSERT_OK(session.RegisterExternalAllocator(&stream, allocator));
  ASSERT_OK(session.AddGraph(1, perceptron(8)));
  Tensors outputs;
  ASSERT_OK(session.RunGraphWithStreamAsync(1, &stream, {rows_of(8)}, outputs));
  allocator->reached.wait();  // the run takes its memory
  std::atomic<bool> opened = false;
  auto removed = std::async(std::launch::async, [&] {
    EXPECT_OK(session.RemoveGraph(1));
    return opened.load();
  });
  // Other graphs go on.
  EXPECT_OK(session.AddGraph(2, perceptron(8)));
  Tensors others;
  EXPECT_OK(session.RunGraph(2, {rows_of(8)}, others));
  opened = true;
  allocator->opened.count_down();
  EXPECT_TRUE(removed.get()) << "RemoveGraph did not wait for the run";
  EXPECT_FAILS(session.RunGraph(1, {rows_of(8)}, outputs), GE_GRAPH_NOT_EXIST, "AddGraph()");
  ASSERT_OK(stream.Synchronize());
  EXPECT_EQ(floats(outputs[0]), floats(others[0]));
}

TEST_F(Threads, CallBackWithTheOutputs) {
  const std::vector<float> expected = result_of(perceptron(5), {rows_of(5)});
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(1, perceptron(-1)));
  std::vector<int64_t> rows;  // in the order of the callbacks
  const auto note = [&](::ge::Status status, const Tensors& outputs) {
    EXPECT_EQ(status, ::ge::SUCCESS);
    rows.push_back(outputs.at(0).GetTensorDesc().GetShape().GetDim(0));
  };
  const auto call_again = [&](::ge::Status status, const Tensors& outputs) {
    note(status, outputs);
    expect_close(floats(outputs.at(0)), expected);
    EXPECT_FAILS(session.RemoveGraph(1), GE_IN_CALLBACK, "outside of callbacks");
    Tensors more;
    EXPECT_OK(session.RunGraph(1, {rows_of(5)}, more));
    expect_close(floats(more.at(0)), expected);
  };
  std::promise<void> done;
  const auto finish = [&](::ge::Status status, const Tensors& outputs) {
    note(status, outputs);
    done.set_value();
  };
  ASSERT_OK(session.RunGraphAsync(1, {rows_of(2)}, note));
  ASSERT_OK(session.RunGraphAsync(1, {rows_of(5)}, call_again));
  ASSERT_OK(session.RunGraphAsync(1, {rows_of(9)}, finish));
  done.get_future().wait();
  EXPECT_EQ(rows, (std::vector<int64_t>{2, 5, 9}));
  EXPECT_OK(session.RemoveGraph(1));
}

// The graphs of another session may have runs in other threads, which do not wait for the callback.
TEST_F(Threads, DestroyOtherSessionsInCallbacks) {
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(1, perceptron(2)));
  auto other = std::make_unique<::ge::Session>(std::map<::ge::AscendString, ::ge::AscendString>());
  ASSERT_OK(other->AddGraph(1, perceptron(2)));
  ASSERT_OK(other->BuildGraph(1, {}));
  std::promise<void> done;
  ASSERT_OK(session.RunGraphAsync(1, {rows_of(2)}, [&](::ge::Status, Tensors&) {
    other.reset();
    done.set_value();
  }));
  done.get_future().wait();
  EXPECT_EQ(other, nullptr);
}

TEST_F(Threads, BuildWhileMemoryMoves) {
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(1, perceptron(-1)));
  ASSERT_OK(session.CompileGraph(1));
  std::atomic<bool> moved = false;
  auto built = std::async(std::launch::async, [&] {
    int64_t rows = 0;
    do {
      EXPECT_OK(session.BuildGraph(1, {rows_of(++rows)}));
    } while (!moved);
  });
  for (int i = 0; i < 200; ++i) EXPECT_OK(session.SetGraphConstMemoryBase(1, nullptr, 0));
  moved = true;
  built.get();
}

// A callback and another thread load a graph at the same time, and the run of the thread waits for the callback.
TEST_F(Threads, LoadGraphsInCallbacks) {
  for (int i = 0; i < 20; ++i) {
    ::ge::Session session({});
    ASSERT_OK(session.AddGraph(1, perceptron(2)));
    ASSERT_OK(session.AddGraph(2, perceptron(4)));
    ASSERT_OK(session.CompileGraph(2));
    std::latch both(2);
    ASSERT_OK(session.RunGraphAsync(1, {rows_of(2)}, [&](::ge::Status, Tensors&) {
      both.arrive_and_wait();
      Tensors outputs;
      EXPECT_OK(session.RunGraph(2, {rows_of(4)}, outputs));
    }));
    both.arrive_and_wait();
    std::promise<::ge::Status> done;
    ASSERT_OK(session.RunGraphAsync(2, {rows_of(4)}, [&](::ge::Status status, Tensors&) { done.set_value(status); }));
    EXPECT_OK(done.get_future().get());
  }
}

// Each graph that was added is removed by one of them, or there is one in the end.
TEST_F(Threads, RemoveTheGraphThatIsThere) {
  ::ge::Session session({});
  const ::ge::Graph graph = perceptron(2);
  std::atomic<bool> all_added = false;
  const auto remove = [&] {
    int removed = 0;
    while (!all_added) removed += session.RemoveGraph(1) == ::ge::SUCCESS ? 1 : 0;
    return removed;
  };
  auto first = std::async(std::launch::async, remove);
  auto second = std::async(std::launch::async, remove);
  int added = 0;
  for (int i = 0; i < 2000; ++i) added += session.AddGraph(1, graph) == ::ge::SUCCESS ? 1 : 0;
  all_added = true;
  int removed = first.get() + second.get();
  removed += session.RemoveGraph(1) == ::ge::SUCCESS ? 1 : 0;
  EXPECT_EQ(removed, added);
}

class NoMemoryForOthers : public ::ge::Allocator {
 public:
  ::ge::MemBlock* Malloc(size_t size) override {
    if (std::this_thread::get_id() != maker_) return nullptr;
    return new ::ge::MemBlock(*this, std::aligned_alloc(64, (size + 63) / 64 * 64), size);
  }
  void Free(::ge::MemBlock* block) override {
    std::free(block->GetAddr());
    delete block;
  }

 private:
  const std::thread::id maker_ = std::this_thread::get_id();
};

TEST_F(Threads, LearnOfFailuresFromTheStream) {
  ::ge::Stream stream;
  ::ge::Session session({});
  ASSERT_OK(session.RegisterExternalAllocator(&stream, std::make_shared<NoMemoryForOthers>()));
  ASSERT_OK(session.AddGraph(1, perceptron(8)));
  Tensors outputs;
  ASSERT_OK(session.RunGraphWithStreamAsync(1, &stream, {rows_of(8)}, outputs));
  EXPECT_FAILS(stream.Synchronize(), FAILED, "Stream::Synchronize: ");
  EXPECT_OK(stream.Synchronize());
  ASSERT_OK(session.UnregisterExternalAllocator(&stream));
  ASSERT_OK(session.RunGraphWithStreamAsync(1, &stream, {rows_of(8)}, outputs));
  EXPECT_OK(stream.Synchronize());
}

// Warnings of runs on a stream come with Synchronize(): here that the engine makes an Instance again.
TEST_F(Threads, LearnOfWarningsFromTheStream) {
  ::ge::GEGetWarningMsg();
  ::ge::Stream stream;
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(1, perceptron(-1)));
  Tensors outputs;
  for (int64_t rows = 1; rows <= 65; ++rows) {
    outputs.clear();
    ASSERT_OK(session.RunGraphWithStreamAsync(1, &stream, {rows_of(rows)}, outputs));
  }
  ASSERT_OK(stream.Synchronize());
  EXPECT_EQ(::ge::GEGetWarningMsg(), "");
  outputs.clear();
  ASSERT_OK(session.RunGraphWithStreamAsync(1, &stream, {rows_of(1)}, outputs));
  ASSERT_OK(stream.Synchronize());
  EXPECT_NE(::ge::GEGetWarningMsg().find("again"), std::string::npos);
  ASSERT_OK(stream.Synchronize());
  EXPECT_EQ(::ge::GEGetWarningMsg(), "");
}

TEST_F(Threads, CompileAtTheSameTime) {
  ::ge::Session session({});
  for (uint32_t id = 0; id < 3; ++id) {
    ASSERT_OK(session.AddGraph(id, perceptron(4 + id)));
    ASSERT_OK(session.CompileGraph(id));
  }
  for (uint32_t id = 0; id < 3; ++id) EXPECT_NE(session.GetCompiledGraphSummary(id), nullptr);
  ASSERT_OK(session.AddGraph(9, perceptron(3)));
  ASSERT_OK(session.CompileGraph(9));
  EXPECT_OK(session.RemoveGraph(9));  // while it is being compiled
}

}  // namespace

}  // namespace npugraph::ge
