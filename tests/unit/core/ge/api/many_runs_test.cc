// SPDX-License-Identifier: Apache-2.0
// Many runs of several graphs in several threads, and what is left of their memory.
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>

#include "ge/api/api_testing.h"
#include "runtime/watch/ledger.h"

namespace npugraph::ge {
namespace {

constexpr int kThreads = 8, kRuns = 10000;

Op on_side(const char* type, const char* name, const std::vector<std::string>& inputs) {
  return Op(type, name, inputs).attr("_user_stream_label", "side");
}

// A sum of two branches on two streams.
::ge::Graph branches() {
  return graph_of_ops({data("x", 0, {-1, 16}), on_side("Relu", "a", {"x:0"}), Op("Sigmoid", "b", {"x:0"}),
                       Op("Add", "y", {"a:0", "b:0"}), Op("NetOutput", "out", {"y:0"})});
}

// Adds the second input to the first one, in its memory.
::ge::Graph update() {
  const Message float_16 = desc("y", WireType::kFloat, {-1, 16});
  return graph_of_ops({Op("RefData", "s", {}).attr("index", int64_t{0}).output(float_16), data("x", 1, {-1, 16}),
                       Op("Add", "sum", {"s:0", "x:0"}), Op("Assign", "w", {"s:0", "sum:0"}),
                       Op("NetOutput", "out", {"w:0"})});
}

// A session with four graphs, each of which has runs in all threads, with inputs of several sizes.
class Service {
 public:
  explicit Service(const std::shared_ptr<CountingAllocator>& allocator) : session_({}) {
    const std::vector<::ge::Graph> graphs = {perceptron(8), perceptron(-1), branches(), update()};
    for (uint32_t id = 0; id < graphs.size(); ++id) {
      EXPECT_OK(session_.AddGraph(id, graphs[id]));
      EXPECT_OK(session_.CompileGraph(id));
    }
    EXPECT_OK(session_.RegisterExternalAllocator(&stream_, allocator));
    for (const int64_t rows : {3, 8, 21}) expected_.emplace(rows, results(rows));
  }
  ~Service() { EXPECT_OK(stream_.Synchronize()); }

  // In each of the threads, `runs` in all.
  void serve(int runs) {
    std::atomic<int> next = 0;
    std::vector<std::future<void>> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.push_back(std::async(std::launch::async, [&] {
        for (int run = next++; run < runs; run = next++) check(run);
      }));
    }
    for (auto& thread : threads) thread.get();
  }

 private:
  using Results = std::vector<std::vector<float>>;  // by graph

  std::vector<float> run(uint32_t id, int64_t rows, bool on_stream) {
    Tensors inputs = {rows_of(rows)};
    if (id == 3) inputs = {tensor({rows, 16}, std::vector<float>(static_cast<size_t>(rows) * 16, 1)), rows_of(rows)};
    Tensors outputs;
    EXPECT_OK(session_.RunGraphWithStreamAsync(id, on_stream ? &stream_ : nullptr, inputs, outputs));
    if (on_stream) {
      EXPECT_OK(stream_.Synchronize());
    }
    return outputs.size() == 1 ? floats(outputs[0]) : std::vector<float>();
  }

  Results results(int64_t rows) {
    Results all;
    for (uint32_t id = 0; id < 4; ++id) all.push_back(run(id, id == 0 ? 8 : rows, false));
    return all;
  }

  void check(int number) {
    constexpr int64_t kRows[] = {3, 8, 21};
    const auto id = static_cast<uint32_t>(number % 4);
    const int64_t rows = kRows[number / 4 % 3];
    EXPECT_EQ(run(id, id == 0 ? 8 : rows, number % 5 == 0), expected_.at(rows)[id]) << "run " << number;
  }

  ::ge::Session session_;
  ::ge::Stream stream_;
  std::map<int64_t, Results> expected_;
};

std::set<std::string> names_of_pools() {
  std::set<std::string> names;
  for (const runtime::PoolInfo& pool : runtime::pools()) names.insert(pool.name);
  return names;
}

// Bytes that are allocated; 0 if a sanitizer has its own heap.
int64_t heap_bytes() { return static_cast<int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd); }

class ManyRuns : public EngineApi {};

TEST_F(ManyRuns, LeaveNoMemoryBehind) {
  const auto allocator = std::make_shared<CountingAllocator>();
  const auto serve = [&](int runs) {
    Service service(allocator);
    service.serve(runs);
  };
  serve(kThreads * 12);  // caches of the process are full
  const std::set<std::string> pools = names_of_pools();
  const int64_t bytes = heap_bytes();
  EXPECT_EQ(allocator->live(), 0u);
  serve(kRuns);
  EXPECT_EQ(allocator->live(), 0u);
  EXPECT_EQ(names_of_pools(), pools);
  EXPECT_LT(heap_bytes() - bytes, 10 * kRuns);
}

}  // namespace
}  // namespace npugraph::ge
