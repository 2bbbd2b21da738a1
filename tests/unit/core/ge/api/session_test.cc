// SPDX-License-Identifier: Apache-2.0
// Graphs in sessions: which calls may follow which, and what they say.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "ge/api/api_testing.h"
#include "temporary_folder.h"

namespace npugraph::ge {
namespace {

class Sessions : public EngineApi {};

::ge::Graph negation(const std::vector<int64_t>& dims) {
  return graph_of_ops({data("x", 0, dims), Op("Neg", "y", {"x:0"}), Op("NetOutput", "out", {"y:0"})});
}

TEST(Engine, HasToBeInitialised) {
  EXPECT_FAILS(::ge::GEFinalize(), GE_NOT_INITIALIZED, "GEFinalize: GEInitialize() has to be called first");
  ::ge::Session session({});
  EXPECT_FAILS(session.AddGraph(0, negation({4})), GE_NOT_INITIALIZED, "GEInitialize() has to be called first");
  ASSERT_OK(::ge::GEInitialize({}));
  EXPECT_OK(::ge::GEInitialize({}));
  EXPECT_EQ(::ge::GEGetWarningMsg(), "");
  EXPECT_OK(::ge::GEInitialize({{"ge.aicoreNum", "1"}}));
  EXPECT_EQ(::ge::GEGetWarningMsg(), "GEInitialize() was called before: other options have no effect");
  EXPECT_OK(session.AddGraph(0, negation({4})));
  {
    const ::ge::Session other({});
    EXPECT_NE(other.GetSessionId(), session.GetSessionId());
    EXPECT_FAILS(::ge::GEFinalize(), GE_SESSIONS_EXIST, "2 sessions (");
  }
  Tensors outputs;
  EXPECT_OK(session.RunGraph(0, {tensor({4}, {1, 2, 3, 4})}, outputs));
}

TEST(Engine, IsInitialisedAgain) {
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(::ge::GEInitialize({}));
    EXPECT_EQ(result_of(negation({2}), {tensor({2}, {1, 2})}), (std::vector<float>{-1, -2}));
    ASSERT_OK(::ge::GEFinalize());
  }
}

TEST_F(Sessions, GiveTheirMessagesAsAscendStringsToo) {
  ::ge::Session session({});
  EXPECT_NE(session.RemoveGraph(7), ::ge::SUCCESS);
  EXPECT_NE(std::string(::ge::GEGetErrorMsgV2().GetString()).find("graph 7"), std::string::npos);
  EXPECT_EQ(::ge::GEGetErrorMsg(), "");  // read once
  EXPECT_OK(::ge::GEInitialize({{"ge.aicoreNum", "1"}}));
  EXPECT_STREQ(::ge::GEGetWarningMsgV2().GetString(), "GEInitialize() was called before: other options have no effect");
  EXPECT_EQ(::ge::GEGetWarningMsg(), "");
}

TEST_F(Sessions, NameWhatHasToComeFirst) {
  ::ge::Session session({});
  const Tensors inputs = {tensor({4}, {1, 2, 3, 4})};
  Tensors outputs;
  EXPECT_FAILS(session.CompileGraph(7), GE_GRAPH_NOT_EXIST, "CompileGraph: session");
  EXPECT_FAILS(session.RunGraph(7, inputs, outputs), GE_GRAPH_NOT_EXIST, "AddGraph() has to come first");
  EXPECT_TRUE(session.IsGraphNeedRebuild(7));
  EXPECT_FAILS(session.AddGraph(7, ::ge::Graph("empty")), PARAM_INVALID, "LoadFromFile()");
  ASSERT_OK(session.AddGraph(7, negation({4})));
  EXPECT_FAILS(session.AddGraph(7, negation({4})), GE_GRAPH_EXISTS, "has a graph 7: RemoveGraph() it first");
  EXPECT_EQ(session.GetCompiledGraphSummary(7), nullptr);
  EXPECT_NE(::ge::GEGetErrorMsg().find("CompileGraph() or BuildGraph() has to be called"), std::string::npos);
  EXPECT_FAILS(session.SetGraphConstMemoryBase(7, nullptr, 0), GE_GRAPH_NOT_COMPILED, "SetGraphConstMemoryBase: ");
  EXPECT_FAILS(session.UpdateGraphFeatureMemoryBase(7, nullptr, 0), GE_GRAPH_NOT_COMPILED, "CompileGraph()");
  EXPECT_FAILS(session.UpdateGraphRefreshableFeatureMemoryBase(7, nullptr, 0), GE_GRAPH_NOT_COMPILED, "CompileGraph()");
  EXPECT_FAILS(session.SetGraphFixedFeatureMemoryBase(7, nullptr, 0), GE_GRAPH_NOT_COMPILED, "CompileGraph()");
  EXPECT_FAILS(session.LoadGraph(7, {}, nullptr), GE_GRAPH_NOT_COMPILED, "CompileGraph()");
  EXPECT_TRUE(session.IsGraphNeedRebuild(7));
  ASSERT_OK(session.CompileGraph(7));
  EXPECT_OK(session.CompileGraph(7));
  EXPECT_FALSE(session.IsGraphNeedRebuild(7));
  ::ge::Stream stream;
  EXPECT_FAILS(session.ExecuteGraphWithStreamAsync(7, &stream, inputs, outputs), GE_GRAPH_NOT_LOADED,
               "LoadGraph() has to be called for graph 7 on this stream");
  ASSERT_OK(session.LoadGraph(7, {}, &stream));
  EXPECT_FAILS(session.ExecuteGraphWithStreamAsync(7, nullptr, inputs, outputs), GE_GRAPH_NOT_LOADED, "LoadGraph()");
  int no_stream = 0;
  EXPECT_FAILS(session.RunGraphWithStreamAsync(7, &no_stream, inputs, outputs), GE_STREAM_INVALID,
               "there is no stream");
  EXPECT_FAILS(session.RegisterExternalAllocator(nullptr, nullptr), PARAM_INVALID, "null");
  ASSERT_OK(session.ExecuteGraphWithStreamAsync(7, &stream, inputs, outputs));
  ASSERT_OK(stream.Synchronize());
  EXPECT_EQ(floats(outputs[0]), (std::vector<float>{-1, -2, -3, -4}));
  ASSERT_OK(session.RemoveGraph(7));
  EXPECT_FAILS(session.RemoveGraph(7), GE_GRAPH_NOT_EXIST, "AddGraph()");
  EXPECT_FAILS(session.RunGraph(7, inputs, outputs), GE_GRAPH_NOT_EXIST, "AddGraph()");
  ASSERT_OK(session.AddGraph(7, negation({4})));
  EXPECT_OK(session.RunGraph(7, inputs, outputs));
}

TEST_F(Sessions, CheckTheTensorsOfARun) {
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(1, graph_of_ops({data("x", 0, {-1, 2}), data("r", 1, {-1, 2}),
                                              Op("Add", "y", {"x:0", "r:0"}), Op("NetOutput", "out", {"y:0"})})));
  const ::ge::Tensor good = tensor({2, 2}, {1, 2, 3, 4});
  Tensors outputs;
  EXPECT_FAILS(session.RunGraph(1, {good}, outputs), PARAM_INVALID, "the graph has 2 inputs, got 1");
  EXPECT_FAILS(session.RunGraph(1, {good, tensor({3, 2}, sines(6, 1))}, outputs), PARAM_INVALID,
               "input 1 (r) is DT_FLOAT[d0, 2] with d0=2, got DT_FLOAT[3, 2]");
  EXPECT_FAILS(session.RunGraph(1, {tensor({4}, {1, 2, 3, 4}), good}, outputs), PARAM_INVALID, "got DT_FLOAT[4]");
  ::ge::Tensor whole = good;
  whole.SetTensorDesc(::ge::TensorDesc(::ge::Shape({2, 2}), ::ge::FORMAT_ND, ::ge::DT_INT32));
  EXPECT_FAILS(session.RunGraph(1, {good, whole}, outputs), PARAM_INVALID, "got DT_INT32[2, 2]");
  EXPECT_FAILS(session.RunGraph(1, {good, tensor({2, 2}, {1, 2, 3})}, outputs), PARAM_INVALID,
               "needs 16 bytes of data, got 12");
  Tensors small = {tensor({1}, {0})};
  EXPECT_FAILS(session.RunGraphWithStreamAsync(1, nullptr, {good, good}, small), PARAM_INVALID,
               "output 0 has 16 bytes, its tensor has 4");
  Tensors many(2);
  EXPECT_FAILS(session.RunGraphWithStreamAsync(1, nullptr, {good, good}, many), PARAM_INVALID, "1 output, got 2");
  ASSERT_OK(session.RunGraph(1, {good, good}, outputs));
  EXPECT_EQ(floats(outputs[0]), (std::vector<float>{2, 4, 6, 8}));
}

// Also where the run would find them out: on a stream, and with sizes that are no sizes.
TEST_F(Sessions, CheckTheBoundsOfSizes) {
  Message graph = Message().text(1, "g");
  for (const Op& op : {data("x", 0, {-1, 4}), Op("Neg", "y", {"x:0"}), Op("NetOutput", "out", {"y:0"})})
    graph.message(6, op.message());
  const std::string bytes = Message().message(7, with_texts(graph, 11, "_npugraph_ranges", {"d0"}, {2, 5})).bytes();
  ::ge::Graph bounded;
  ASSERT_OK(bounded.LoadFromSerializedModelArray(bytes.data(), bytes.size()));
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(1, bounded));
  ::ge::Stream stream;
  Tensors outputs;
  EXPECT_FAILS(session.RunGraphWithStreamAsync(1, &stream, {tensor({6, 4}, sines(24, 1))}, outputs), PARAM_INVALID,
               "size 0 of input 0 (x) is 6; the graph is made for [2, 5]");
  EXPECT_FAILS(session.RunGraph(1, {tensor({1, 4}, sines(4, 1))}, outputs), PARAM_INVALID, "is 1; the graph");
  EXPECT_FAILS(session.BuildGraph(1, {tensor({1, 4}, sines(4, 1))}), PARAM_INVALID, "is 1; the graph");
  EXPECT_OK(session.RunGraph(1, {tensor({5, 4}, sines(20, 1))}, outputs));
  ASSERT_OK(session.AddGraph(2, negation({-1, 4})));
  EXPECT_FAILS(session.RunGraph(2, {tensor({-1, 4}, sines(4, 1))}, outputs), PARAM_INVALID,
               "size 0 of input 0 (x) is -1; the graph is made for [0, inf]");
  EXPECT_FAILS(session.RunGraph(2, {tensor({INT64_MAX, 4}, sines(4, 1))}, outputs), PARAM_INVALID, "64 bits");
}

// An output may lie in the memory of an input, which is read before it is written.
TEST_F(Sessions, RunOverTheirInputs) {
  ::ge::Session session({});
  ASSERT_OK(
      session.AddGraph(1, graph_of_ops({data("x", 0, {3}), Op("Neg", "n", {"x:0"}), Op("Add", "y", {"x:0", "n:0"}),
                                        Op("Sub", "z", {"n:0", "x:0"}), Op("NetOutput", "out", {"y:0", "z:0"})})));
  const ::ge::Tensor x = tensor({3}, {1, 2, 3});
  Tensors outputs = {x, ::ge::Tensor()};
  ASSERT_OK(session.RunGraphWithStreamAsync(1, nullptr, {x}, outputs));
  EXPECT_EQ(floats(x), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(floats(outputs[1]), (std::vector<float>{-2, -4, -6}));
  Tensors same = {x, x};
  EXPECT_FAILS(session.RunGraphWithStreamAsync(1, nullptr, {x}, same), PARAM_INVALID, "outputs 0 and 1");
}

// The same for outputs that are inputs.
TEST_F(Sessions, ReturnInputsOverOtherInputs) {
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(
      1, graph_of_ops({data("x", 0, {3}), Op("Neg", "n", {"x:0"}), Op("NetOutput", "out", {"n:0", "x:0"})})));
  const ::ge::Tensor x = tensor({3}, {1, 2, 3});
  Tensors outputs = {x, ::ge::Tensor()};
  ASSERT_OK(session.RunGraphWithStreamAsync(1, nullptr, {x}, outputs));
  EXPECT_EQ(floats(x), (std::vector<float>{-1, -2, -3}));
  EXPECT_EQ(floats(outputs[1]), (std::vector<float>{1, 2, 3}));
  ASSERT_OK(session.AddGraph(
      2, graph_of_ops({data("a", 0, {3}), data("b", 1, {3}), Op("NetOutput", "out", {"b:0", "a:0"})})));
  const ::ge::Tensor a = tensor({3}, {1, 2, 3});
  const ::ge::Tensor b = tensor({3}, {4, 5, 6});
  Tensors swapped = {a, b};
  ASSERT_OK(session.RunGraphWithStreamAsync(2, nullptr, {a, b}, swapped));
  EXPECT_EQ(floats(a), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(floats(b), (std::vector<float>{1, 2, 3}));
}

// The strides of a model are those with which it reads an input. Tensors stay row-major.
TEST_F(Sessions, TakeRowMajorTensorsForStridedInputs) {
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(1, graph_of_ops({strided_data("Data", "x", 0, {3, 4}, {"1", "3"}), Op("Neg", "n", {"x:0"}),
                                              Op("NetOutput", "out", {"n:0", "x:0"})})));
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::vector<float> negative = {-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12};
  const ::ge::Tensor x = tensor({3, 4}, values);
  Tensors outputs;
  ASSERT_OK(session.BuildGraph(1, {x}));
  ASSERT_OK(session.RunGraph(1, {x}, outputs));
  EXPECT_EQ(floats(outputs[0]), negative);
  EXPECT_EQ(floats(outputs[1]), values);
  Tensors over = {x, ::ge::Tensor()};
  ASSERT_OK(session.RunGraphWithStreamAsync(1, nullptr, {x}, over));
  EXPECT_EQ(floats(x), negative);
  EXPECT_EQ(floats(over[1]), values);
  EXPECT_FAILS(session.RunGraph(1, {tensor({3, 4}, {1})}, outputs), PARAM_INVALID, "needs 48 bytes of data, got 4");
}

TEST_F(Sessions, WriteRowMajorTensorsOfStridedInputs) {
  ::ge::Session session({});
  ASSERT_OK(
      session.AddGraph(1, graph_of_ops({strided_data("RefData", "s", 0, {2, 3}, {"1", "2"}), data("x", 1, {2, 3}),
                                        Op("Add", "next", {"s:0", "x:0"}), Op("Assign", "write", {"s:0", "next:0"}),
                                        Op("NetOutput", "out", {"write:0"})})));
  const ::ge::Tensor s = tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const ::ge::Tensor x = tensor({2, 3}, {10, 20, 30, 40, 50, 60});
  const std::vector<float> sums = {11, 22, 33, 44, 55, 66};
  Tensors outputs;
  ASSERT_OK(session.RunGraph(1, {s, x}, outputs));
  EXPECT_EQ(floats(s), sums);
  EXPECT_EQ(floats(outputs[0]), sums);
  EXPECT_FAILS(session.RunGraph(1, {s, s}, outputs), PARAM_INVALID,
               "input 0 (s) and input 1 (x) overlap, and the graph writes one of them");
  EXPECT_EQ(floats(s), sums);
}

// A graph that writes its input, and returns it.
TEST_F(Sessions, TellWhichOutputsAreInputs) {
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(
      1, graph_of_ops({Op("RefData", "s", {}).attr("index", int64_t{0}).output(desc("y", WireType::kFloat, {3})),
                       data("x", 1, {3}), Op("Add", "next", {"s:0", "x:0"}), Op("Assign", "write", {"s:0", "next:0"}),
                       Op("NetOutput", "out", {"write:0"})})));
  ASSERT_OK(session.CompileGraph(1));
  const auto summary = session.GetCompiledGraphSummary(1);
  ASSERT_NE(summary, nullptr) << ::ge::GEGetErrorMsg();
  std::vector<std::pair<uint32_t, uint32_t>> same;
  ASSERT_OK(summary->GetIOIndexesWithSameAddr(same));
  EXPECT_EQ(same, (std::vector<std::pair<uint32_t, uint32_t>>{{0, 0}}));
  const ::ge::Tensor s = tensor({3}, {1, 2, 3});
  const ::ge::Tensor x = tensor({3}, {10, 20, 30});
  Tensors outputs;
  ASSERT_OK(session.RunGraph(1, {s, x}, outputs));
  EXPECT_EQ(floats(s), (std::vector<float>{11, 22, 33}));
  EXPECT_EQ(floats(outputs[0]), (std::vector<float>{11, 22, 33}));
  EXPECT_NE(outputs[0].GetData(), s.GetData());
  EXPECT_FAILS(session.RunGraph(1, {s, s}, outputs), PARAM_INVALID, "overlaps another input");
  Tensors in_place = {s};
  ASSERT_OK(session.RunGraphWithStreamAsync(1, nullptr, {s, x}, in_place));
  EXPECT_EQ(floats(s), (std::vector<float>{21, 42, 63}));
}

TEST_F(Sessions, SayWhatCannotBeCompiled) {
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(
      1, graph_of_ops({data("x", 0, {2}), Op("Nonsense", "n", {"x:0"}), Op("NetOutput", "out", {"n:0"})})));
  EXPECT_FAILS(session.CompileGraph(1), GE_GRAPH_INVALID,
               "operator 'n' of type Nonsense: Ascend IR has no operator of this type");
  EXPECT_FAILS(session.LoadGraph(1, {}, nullptr), GE_GRAPH_NOT_COMPILED, "CompileGraph()");
  Tensors outputs;
  EXPECT_FAILS(session.RunGraph(1, {tensor({2}, {1, 2})}, outputs), GE_GRAPH_INVALID, "operator 'n'");
  EXPECT_TRUE(session.IsGraphNeedRebuild(1));
  ASSERT_OK(session.RemoveGraph(1));
  ASSERT_OK(session.AddGraph(1, negation({2})));
  EXPECT_OK(session.RunGraph(1, {tensor({2}, {1, 2})}, outputs));
}

TEST_F(Sessions, CheckTheirOptions) {
  ::ge::GEGetWarningMsg();
  ::ge::Session session({{"ge.exec.deviceId", "0"}, {"ge.aicoreNum", "2|2"}, {"ge.deterministic", "1"}});
  EXPECT_EQ(::ge::GEGetWarningMsg(), "options without effect in this engine: ge.deterministic, ge.exec.deviceId");
  EXPECT_FAILS(session.AddGraph(1, negation({2}), std::map<std::string, std::string>{{"ge.aicoreNum", "many"}}),
               PARAM_INVALID, "option 'ge.aicoreNum' is 'N' or 'N|M'");
  EXPECT_OK(session.AddGraph(1, negation({2}), std::map<std::string, std::string>{{"ge.aicoreNum", "1"}}));
  const std::map<::ge::AscendString, ::ge::AscendString> half = {{"ge.aicoreNum", "1|"}};
  ::ge::Session wrong(half);
  EXPECT_FAILS(wrong.AddGraph(1, negation({2})), PARAM_INVALID, "the session cannot be used: option 'ge.aicoreNum'");
}

TEST_F(Sessions, BuildForTheShapesOfInputs) {
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(1, negation({-1})));
  EXPECT_FAILS(session.BuildGraph(1, {tensor({1, 1}, {1})}), PARAM_INVALID, "got DT_FLOAT[1, 1]");
  EXPECT_OK(session.BuildGraph(1, {::ge::Tensor(::ge::TensorDesc(::ge::Shape({4})))}));
  Tensors outputs;
  EXPECT_OK(session.RunGraph(1, {tensor({4}, {1, 2, 3, 4})}, outputs));
}

class Files : public Sessions {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  TemporaryFolder folder_;
};

TEST_F(Files, HoldGraphs) {
  const ::ge::Graph graph = negation({2});
  ASSERT_OK(graph.SaveToFile(path("model.air").c_str()));
  ::ge::Graph loaded("given");
  ASSERT_OK(loaded.LoadFromFile(path("model.air").c_str()));
  std::string nodes;
  for (const ::ge::GNode& node : loaded.GetAllNodes()) {
    ::ge::AscendString name;
    ::ge::AscendString type;
    node.GetName(name);
    node.GetType(type);
    nodes += cat(name.GetString(), ":", type.GetString(), " ");
  }
  EXPECT_EQ(nodes, "x:Data y:Neg out:NetOutput ");
  ::ge::AscendString name;
  loaded.GetName(name);
  EXPECT_STREQ(name.GetString(), "given");
  ::ge::Graph copy;
  ASSERT_OK(copy.CopyFrom(loaded));
  ::ge::Session session({});
  ASSERT_OK(session.AddGraphWithCopy(1, loaded));
  std::ofstream(path("model.air"), std::ios::in | std::ios::binary) << "changed in place";
  EXPECT_EQ(result_of(copy, {tensor({2}, {1, 2})}), (std::vector<float>{-1, -2}));
  Tensors outputs;
  EXPECT_OK(session.RunGraph(1, {tensor({2}, {1, 2})}, outputs));
}

// Constants in files of their own are found beside the model, also by copies.
TEST_F(Files, HoldConstants) {
  std::ofstream(path("weight"), std::ios::binary).write(reinterpret_cast<const char*>(sines(32, 0.5f).data()), 128);
  std::ofstream(path("model.air"), std::ios::binary)
      << serialise({data("x", 0, {32}),
                    Op("FileConstant", "w")
                        .attr("shape", std::vector<int64_t>{32})
                        .attr("dtype", int64_t{::ge::DT_FLOAT})
                        .attr("file_path", "weight"),
                    Op("Add", "y", {"x:0", "w:0"}), Op("NetOutput", "out", {"y:0"})});
  ::ge::Graph graph;
  ASSERT_OK(graph.LoadFromFile(path("model.air").c_str()));
  ::ge::Session session({});
  ASSERT_OK(session.AddGraphWithCopy(1, graph));
  Tensors outputs;
  ASSERT_OK(session.RunGraph(1, {tensor({32}, std::vector<float>(32))}, outputs));
  EXPECT_EQ(floats(outputs[0]), sines(32, 0.5f));
  std::filesystem::remove(path("weight"));
  EXPECT_FAILS(::ge::Graph().LoadFromFile(path("model.air").c_str()), GE_GRAPH_INVALID, "operator 'w'");
}

TEST_F(Files, ThatAreNoGraphsAreErrors) {
  ::ge::Graph graph;
  EXPECT_FAILS(graph.LoadFromFile(path("gone").c_str()), PARAM_INVALID, "cannot read");
  std::ofstream(path("text")) << "no model";
  EXPECT_FAILS(graph.LoadFromFile(path("text").c_str()), GE_GRAPH_INVALID, "text");
  EXPECT_FAILS(graph.LoadFromSerializedModelArray("", 0), GE_GRAPH_INVALID, "no graph");
  EXPECT_FAILS(graph.SaveToFile(path("model.air").c_str()), PARAM_INVALID, "the graph is empty");
  EXPECT_FALSE(graph.IsValid());
  EXPECT_FAILS(negation({2}).SaveToFile(path("gone/model.air").c_str()), PARAM_INVALID, "cannot write");
}

}  // namespace
}  // namespace npugraph::ge
