// SPDX-License-Identifier: Apache-2.0
// Const and feature memory of the user.
#include <algorithm>
#include <atomic>
#include <memory>

#include "ge/api/api_testing.h"
#include "runtime/watch/ledger.h"

namespace npugraph::ge {
namespace {

using Place = GuardedMemory::Place;

struct Sizes {
  size_t constants = 0;
  size_t features = 0;
};

Sizes sizes_of(::ge::Session& session, uint32_t id) {
  const ::ge::CompiledGraphSummaryPtr summary = session.GetCompiledGraphSummary(id);
  if (summary == nullptr) throw std::runtime_error(::ge::GEGetErrorMsg());
  EXPECT_TRUE(summary->IsStatic());
  Sizes sizes;
  EXPECT_OK(summary->GetConstMemorySize(sizes.constants));
  EXPECT_OK(summary->GetFeatureMemorySize(sizes.features));
  return sizes;
}

// The most bytes that the runtime has taken for itself at a time.
int64_t taken() {
  int64_t bytes = 0;
  for (const runtime::PoolInfo& pool : runtime::pools()) bytes += pool.peak_bytes;
  return bytes;
}

// A tensor for the result of perceptron(rows), in memory of the test.
::ge::Tensor result_tensor(int64_t rows) { return tensor({rows, 24}, std::vector<float>(rows * 24)); }

void use(::ge::Session& session, const GuardedMemory& constants, const GuardedMemory& features) {
  ASSERT_OK(session.SetGraphConstMemoryBase(1, constants.data(), constants.size()));
  ASSERT_OK(session.UpdateGraphFeatureMemoryBase(1, features.data(), features.size()));
}

class MemoryOfTheUser : public EngineApi {};

// Nothing lies beside the reported bytes, and nothing stays in memory that the graph has left.
TEST_F(MemoryOfTheUser, IsAllThatARunNeeds) {
  const ::ge::Graph graph = perceptron(8);
  const Tensors inputs = {rows_of(8)};
  const std::vector<float> expected = result_of(graph, inputs);
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(1, graph));
  ASSERT_OK(session.CompileGraph(1));
  const Sizes sizes = sizes_of(session, 1);
  EXPECT_GE(sizes.constants, (16 * 64 + 64 + 64 * 24) * sizeof(float));
  EXPECT_GT(sizes.features, 0u);

  GuardedMemory constants(sizes.constants, Place::kEnd);
  GuardedMemory features(sizes.features, Place::kEnd);
  use(session, constants, features);
  constants.protect(PROT_READ);
  Tensors outputs = {result_tensor(8)};
  const uint8_t* where = outputs[0].GetData();
  ASSERT_OK(session.RunGraphWithStreamAsync(1, nullptr, inputs, outputs));
  EXPECT_EQ(outputs[0].GetData(), where);
  EXPECT_EQ(floats(outputs[0]), expected);
  EXPECT_TRUE(
      std::any_of(features.data(), features.data() + features.size(), [](std::byte b) { return b != std::byte(); }));

  GuardedMemory other_constants(sizes.constants, Place::kBegin);
  GuardedMemory other_features(sizes.features, Place::kBegin);
  use(session, other_constants, other_features);
  constants.protect(PROT_NONE);
  features.protect(PROT_NONE);
  Tensors again = {result_tensor(8)};
  ASSERT_OK(session.RunGraphWithStreamAsync(1, nullptr, inputs, again));
  EXPECT_EQ(floats(again[0]), expected);
  EXPECT_EQ(taken(), 0);
}

// All of the feature memory may move between runs: none of it is fixed.
TEST_F(MemoryOfTheUser, IsSummedUpByKinds) {
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(1, perceptron(8)));
  ASSERT_OK(session.CompileGraph(1));
  const auto summary = session.GetCompiledGraphSummary(1);
  ASSERT_NE(summary, nullptr);
  const size_t features = sizes_of(session, 1).features;
  size_t fixed = 1, refreshable = 0, events = 1;
  EXPECT_OK(summary->GetFixedFeatureMemorySize(fixed));
  EXPECT_OK(summary->GetRefreshableFeatureMemorySize(refreshable));
  EXPECT_OK(summary->GetEventNum(events));
  EXPECT_EQ(fixed, 0u);
  EXPECT_EQ(refreshable, features);
  EXPECT_EQ(events, 0u);
  bool moves = false;
  EXPECT_OK(summary->GetFeatureMemoryBaseRefreshable(moves));
  EXPECT_TRUE(moves);
  const auto kinds = summary->GetAllFeatureMemoryTypeSize();
  ASSERT_EQ(kinds.size(), 1u);
  EXPECT_EQ(kinds[0]->GetType(), ::ge::MemoryType::MEMORY_TYPE_DEFAULT);
  EXPECT_EQ(kinds[0]->GetSize(), features);
  EXPECT_FALSE(kinds[0]->IsFixed());
  std::vector<::ge::DataType> types;
  EXPECT_OK(summary->GetOutputDtypes(types));
  EXPECT_EQ(types, std::vector<::ge::DataType>{::ge::DT_FLOAT});
}

TEST_F(MemoryOfTheUser, HoldsTheConstantsThatRunsRead) {
  ::ge::Session session({});
  ASSERT_OK(
      session.AddGraph(1, graph_of_ops({data("x", 0, {32}), constant("c", WireType::kFloat, {32}, sines(32, 0.5f)),
                                        Op("Add", "y", {"x:0", "c:0"}), Op("NetOutput", "out", {"y:0"})})));
  ASSERT_OK(session.CompileGraph(1));
  const Sizes sizes = sizes_of(session, 1);
  ASSERT_EQ(sizes.constants, 32 * sizeof(float));
  GuardedMemory constants(sizes.constants, Place::kEnd);
  ASSERT_OK(session.SetGraphConstMemoryBase(1, constants.data(), constants.size()));
  EXPECT_EQ(std::memcmp(constants.data(), sines(32, 0.5f).data(), sizes.constants), 0);
  const std::vector<float> threes(32, 3.0f);
  std::memcpy(constants.data(), threes.data(), sizes.constants);
  Tensors outputs;
  ASSERT_OK(session.RunGraph(1, {tensor({32}, std::vector<float>(32, 1.0f))}, outputs));
  EXPECT_EQ(floats(outputs[0]), std::vector<float>(32, 4.0f));
  // The engine's own memory again has the bytes of the model.
  ASSERT_OK(session.SetGraphConstMemoryBase(1, nullptr, 0));
  constants.protect(PROT_NONE);
  ASSERT_OK(session.RunGraph(1, {tensor({32}, std::vector<float>(32))}, outputs));
  EXPECT_EQ(floats(outputs[0]), sines(32, 0.5f));
}

TEST_F(MemoryOfTheUser, IsRefusedWhereItDoesNotFit) {
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(1, perceptron(8)));
  ASSERT_OK(session.CompileGraph(1));
  const Sizes sizes = sizes_of(session, 1);
  const GuardedMemory memory(std::max(sizes.constants, sizes.features) + 64, Place::kBegin);
  EXPECT_FAILS(session.SetGraphConstMemoryBase(1, memory.data(), sizes.constants - 1), PARAM_INVALID,
               cat("the graph needs ", sizes.constants, " bytes of const memory, got ", sizes.constants - 1));
  EXPECT_FAILS(session.UpdateGraphFeatureMemoryBase(1, memory.data() + 8, sizes.features), PARAM_INVALID,
               "memory has to be aligned to 64 bytes");
  EXPECT_FAILS(session.UpdateGraphFeatureMemoryBase(1, nullptr, sizes.features), PARAM_INVALID, "is null");
  EXPECT_FAILS(session.SetGraphFixedFeatureMemoryBase(1, memory.data(), 64), PARAM_INVALID,
               "0 bytes of fixed feature memory");
  EXPECT_OK(session.SetGraphFixedFeatureMemoryBase(1, nullptr, 0));
  EXPECT_OK(session.UpdateGraphRefreshableFeatureMemoryBase(1, memory.data(), sizes.features));
  Tensors outputs;
  EXPECT_OK(session.RunGraph(1, {rows_of(8)}, outputs));
}

TEST_F(MemoryOfTheUser, OfGraphsWithUnknownSizesComesWithEachRun) {
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(1, perceptron(-1)));
  ASSERT_OK(session.CompileGraph(1));
  const auto summary = session.GetCompiledGraphSummary(1);
  ASSERT_NE(summary, nullptr);
  EXPECT_FALSE(summary->IsStatic());
  size_t bytes = 0;
  EXPECT_FAILS(summary->GetFeatureMemorySize(bytes), GE_GRAPH_NOT_STATIC, "sizes of inputs decide");
  EXPECT_FAILS(summary->GetFixedFeatureMemorySize(bytes), GE_GRAPH_NOT_STATIC, "sizes of inputs decide");
  EXPECT_FAILS(summary->GetRefreshableFeatureMemorySize(bytes), GE_GRAPH_NOT_STATIC, "sizes of inputs decide");
  bool moves = true;
  EXPECT_OK(summary->GetFeatureMemoryBaseRefreshable(moves));
  EXPECT_FALSE(moves);
  EXPECT_TRUE(summary->GetAllFeatureMemoryTypeSize().empty());
  std::vector<::ge::Shape> shapes;
  EXPECT_OK(summary->GetOutputShapes(shapes));
  EXPECT_EQ(shapes, std::vector<::ge::Shape>{::ge::Shape({-1, 24})});
  const GuardedMemory memory(4096, Place::kBegin);
  EXPECT_FAILS(session.UpdateGraphFeatureMemoryBase(1, memory.data(), 4096), GE_GRAPH_NOT_STATIC,
               "sizes of inputs decide");
  for (const int64_t rows : {3, 40, 8}) {
    Tensors outputs;
    ASSERT_OK(session.RunGraph(1, {rows_of(rows)}, outputs));
    EXPECT_EQ(outputs[0].GetTensorDesc().GetShape(), ::ge::Shape({rows, 24}));
    expect_close(floats(outputs[0]), result_of(perceptron(rows), {rows_of(rows)}));
  }
}

TEST_F(MemoryOfTheUser, ComesFromTheAllocatorOfTheStream) {
  const auto allocator = std::make_shared<CountingAllocator>();
  const Tensors inputs = {rows_of(8)};
  const std::vector<float> expected = result_of(perceptron(8), inputs);
  ::ge::Stream stream;
  ::ge::Session session({});
  ASSERT_OK(session.RegisterExternalAllocator(&stream, allocator));
  EXPECT_FAILS(session.RegisterExternalAllocator(&stream, allocator), PARAM_INVALID, "the stream has an allocator");
  ASSERT_OK(session.AddGraph(1, perceptron(8)));
  ASSERT_OK(session.CompileGraph(1));
  const Sizes sizes = sizes_of(session, 1);
  ASSERT_OK(session.LoadGraph(1, {}, &stream));
  EXPECT_GE(allocator->asked, static_cast<int64_t>(sizes.constants));
  Tensors outputs;
  ASSERT_OK(session.ExecuteGraphWithStreamAsync(1, &stream, inputs, outputs));
  ASSERT_OK(stream.Synchronize());
  EXPECT_EQ(floats(outputs[0]), expected);
  EXPECT_GE(allocator->asked, static_cast<int64_t>(sizes.constants + sizes.features + outputs[0].GetSize()));
  EXPECT_EQ(allocator->live(), 3u);  // constants, features, the output
  EXPECT_EQ(taken(), 0);
  ASSERT_OK(session.RemoveGraph(1));
  EXPECT_EQ(allocator->live(), 1u);
  EXPECT_EQ(floats(outputs[0]), expected);
  outputs.clear();
  EXPECT_EQ(allocator->live(), 0u);
}

TEST_F(MemoryOfTheUser, GoesBackWhenTheAllocatorGoes) {
  const auto allocator = std::make_shared<CountingAllocator>();
  ::ge::Session session({});
  EXPECT_FAILS(session.UnregisterExternalAllocator(nullptr), PARAM_INVALID, "the stream has no allocator");
  ASSERT_OK(session.RegisterExternalAllocator(nullptr, allocator));
  ASSERT_OK(session.AddGraph(1, perceptron(-1)));
  ASSERT_OK(session.BuildGraph(1, {rows_of(4)}));
  for (const int64_t rows : {4, 30}) {
    Tensors outputs;
    ASSERT_OK(session.RunGraph(1, {rows_of(rows)}, outputs));
  }
  EXPECT_EQ(allocator->live(), 2u);  // constants, features
  ASSERT_OK(session.UnregisterExternalAllocator(nullptr));
  EXPECT_EQ(allocator->live(), 0u);
  EXPECT_EQ(allocator.use_count(), 1);
  Tensors outputs;
  ASSERT_OK(session.RunGraph(1, {rows_of(4)}, outputs));
  expect_close(floats(outputs[0]), result_of(perceptron(4), {rows_of(4)}));
}

// An allocator of two streams is taken from the graphs of one of them.
TEST_F(MemoryOfTheUser, StaysWithGraphsOfOtherStreams) {
  const auto allocator = std::make_shared<CountingAllocator>();
  ::ge::Stream first;
  ::ge::Stream second;
  ::ge::Session session({});
  ASSERT_OK(session.RegisterExternalAllocator(&first, allocator));
  ASSERT_OK(session.RegisterExternalAllocator(&second, allocator));
  ASSERT_OK(session.AddGraph(1, perceptron(8)));
  ASSERT_OK(session.CompileGraph(1));
  ASSERT_OK(session.LoadGraph(1, {}, &second));
  EXPECT_EQ(allocator->live(), 1u);  // constants
  ASSERT_OK(session.UnregisterExternalAllocator(&first));
  EXPECT_EQ(allocator->live(), 1u);
  ASSERT_OK(session.UnregisterExternalAllocator(&second));
  EXPECT_EQ(allocator->live(), 0u);
  EXPECT_EQ(allocator.use_count(), 1);
}

// A summary keeps nothing but itself.
TEST_F(MemoryOfTheUser, IsNotKeptBySummaries) {
  ::ge::CompiledGraphSummaryPtr summary;
  std::string name;
  const auto has_pool = [&] {
    const std::vector<runtime::PoolInfo> pools = runtime::pools();
    return std::ranges::any_of(pools, [&](const runtime::PoolInfo& pool) { return pool.name == name; });
  };
  {
    ::ge::Session session({});
    name = cat("results g_", session.GetSessionId(), "_1");
    ASSERT_OK(session.AddGraph(1, perceptron(8)));
    ASSERT_OK(session.CompileGraph(1));
    summary = session.GetCompiledGraphSummary(1);
    EXPECT_TRUE(has_pool());
  }
  EXPECT_FALSE(has_pool());
  std::vector<::ge::Shape> shapes;
  EXPECT_OK(summary->GetOutputShapes(shapes));
  EXPECT_EQ(shapes, std::vector<::ge::Shape>{::ge::Shape({8, 24})});
}

// Has no memory until the test lets it have some.
class LateAllocator : public CountingAllocator {
 public:
  ::ge::MemBlock* Malloc(size_t size) override { return has_memory ? CountingAllocator::Malloc(size) : nullptr; }

  std::atomic<bool> has_memory = false;
};

TEST_F(MemoryOfTheUser, ThatIsMissingIsAnError) {
  const auto allocator = std::make_shared<LateAllocator>();
  ::ge::Session session({});
  ASSERT_OK(session.RegisterExternalAllocator(nullptr, allocator));
  ASSERT_OK(session.AddGraph(1, perceptron(8)));
  Tensors outputs;
  EXPECT_FAILS(session.RunGraph(1, {rows_of(8)}, outputs), FAILED, "not enough memory");
  allocator->has_memory = true;
  ASSERT_OK(session.RunGraph(1, {rows_of(8)}, outputs));
  EXPECT_EQ(floats(outputs[0]), result_of(perceptron(8), {rows_of(8)}));
  EXPECT_EQ(allocator->live(), 3u);  // constants, features, the output
}

// The graph keeps the user's memory if it cannot get other memory.
TEST_F(MemoryOfTheUser, StaysIfThereIsNoOther) {
  const auto allocator = std::make_shared<LateAllocator>();
  ::ge::Session session({});
  ASSERT_OK(session.RegisterExternalAllocator(nullptr, allocator));
  ASSERT_OK(session.AddGraph(1, perceptron(8)));
  ASSERT_OK(session.CompileGraph(1));
  const Sizes sizes = sizes_of(session, 1);
  GuardedMemory constants(sizes.constants, Place::kEnd);
  GuardedMemory features(sizes.features, Place::kEnd);
  use(session, constants, features);
  ASSERT_OK(session.LoadGraph(1, {}, nullptr));
  EXPECT_FAILS(session.SetGraphConstMemoryBase(1, nullptr, 0), FAILED, "not enough memory");
  std::memset(constants.data(), 0, constants.size());
  Tensors outputs = {result_tensor(8)};
  ASSERT_OK(session.RunGraphWithStreamAsync(1, nullptr, {rows_of(8)}, outputs));
  EXPECT_EQ(floats(outputs[0]), std::vector<float>(8 * 24, 1.0f / 24));
}

}  // namespace
}  // namespace npugraph::ge
