// SPDX-License-Identifier: Apache-2.0
// Functions with C linkage, and the tasks of a graph as they and its summary tell them.
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "ge/api/api_testing.h"
#include "temporary_folder.h"

namespace npugraph::ge {
namespace {

using Words = std::vector<std::pair<::ge::AscendString, ::ge::AscendString>>;

class CFunctions : public EngineApi {};

// Two products, which a host without operators computes in two tasks.
::ge::Graph products() {
  return graph_of_ops({data("x", 0, {128, 128}), constant("w", WireType::kFloat, {128, 128}, sines(128 * 128, 0.3f)),
                       Op("MatMulV2", "h", {"x:0", "w:0"}), Op("Relu", "a", {"h:0"}),
                       Op("MatMulV2", "z", {"a:0", "w:0"}), Op("NetOutput", "out", {"z:0"})});
}

TEST_F(CFunctions, LoadAndRunGraphs) {
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(1, perceptron(8)));
  ::ge::Stream stream;
  Tensors outputs;
  EXPECT_FAILS(GeSessionLoadGraph(session, 1, {}, &stream), GE_GRAPH_NOT_COMPILED, "CompileGraph()");
  ASSERT_OK(session.CompileGraph(1));
  EXPECT_FAILS(GeSessionExecuteGraphWithStreamAsync(session, 1, &stream, {rows_of(8)}, outputs), GE_GRAPH_NOT_LOADED,
               "LoadGraph()");
  ASSERT_OK(GeSessionLoadGraph(session, 1, {}, &stream));
  ASSERT_OK(GeSessionExecuteGraphWithStreamAsync(session, 1, &stream, {rows_of(8)}, outputs));
  ASSERT_OK(stream.Synchronize());
  EXPECT_EQ(floats(outputs[0]), result_of(perceptron(8), {rows_of(8)}));
}

TEST_F(CFunctions, TellOperators) {
  Words inputs = {{"left", "over"}}, outputs, attrs = {{"left", "over"}};
  ASSERT_OK(GetRegisteredIrDef("AddN", inputs, outputs, attrs));
  EXPECT_EQ(inputs, (Words{{"x", "dynamic"}}));
  EXPECT_EQ(outputs, (Words{{"y", "required"}}));
  EXPECT_EQ(attrs, (Words{{"N", "Int"}}));
  ASSERT_OK(GetRegisteredIrDef("MatMulV2", inputs, outputs, attrs));
  EXPECT_EQ(inputs[2], (std::pair<::ge::AscendString, ::ge::AscendString>{"bias", "optional"}));
  EXPECT_FAILS(GetRegisteredIrDef("Plus", inputs, outputs, attrs), PARAM_INVALID, "has no operator 'Plus'");
  EXPECT_FAILS(GetRegisteredIrDef(nullptr, inputs, outputs, attrs), PARAM_INVALID, "has no operator ''");
}

TEST_F(CFunctions, TellTheTasksOfStreams) {
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(1, products()));
  ASSERT_OK(session.CompileGraph(1));
  const auto summary = session.GetCompiledGraphSummary(1);
  ASSERT_NE(summary, nullptr) << ::ge::GEGetErrorMsg();
  ::ge::StreamAllocationSummaryPtr streams;
  ASSERT_OK(summary->GetStreamAllocationSummary(streams));
  ASSERT_EQ(streams->GetAllLogicalStreamInfos().size(), 1U);
  const auto& [name, infos] = *streams->GetAllLogicalStreamInfos().begin();
  EXPECT_EQ(std::string(name.GetString()), cat("g_", session.GetSessionId(), "_1"));
  ASSERT_EQ(infos.size(), 1U);
  size_t number = 0;
  ASSERT_OK(summary->GetStreamNum(number));
  EXPECT_EQ(number, infos.size());
  EXPECT_EQ(infos[0].GetLogicalStreamId(), 0);
  EXPECT_EQ(infos[0].GetPhysicalStreamNum(), 1U);
  EXPECT_EQ(infos[0].GetAllNodes().size(), 2U);
  EXPECT_STREQ(infos[0].ToStringInfo().GetString(), "stream 0: matmul.mm.relu (h, a); matmul.mm (z)");
}

TEST_F(CFunctions, WriteTasksToAFile) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "tasks.json").string();
  ::ge::Session session({});
  EXPECT_FAILS(GeSessionGraphDebugJSONPrint(session, 1, path.c_str()), GE_GRAPH_NOT_EXIST, "AddGraph()");
  ASSERT_OK(session.AddGraph(1, products()));
  EXPECT_FAILS(GeSessionGraphDebugJSONPrint(session, 1, path.c_str()), GE_GRAPH_NOT_COMPILED, "CompileGraph()");
  ASSERT_OK(session.CompileGraph(1));
  EXPECT_FAILS(GeSessionGraphDebugJSONPrint(session, 1, nullptr), PARAM_INVALID, "null");
  EXPECT_FAILS(GeSessionGraphDebugJSONPrint(session, 1, (path + "/gone/x").c_str()), PARAM_INVALID, "cannot write");
  ASSERT_OK(GeSessionGraphDebugJSONPrint(session, 1, path.c_str()));
  std::ifstream file(path);
  const nlohmann::json written = nlohmann::json::parse(file);
  std::vector<std::string> tasks;
  for (const auto& event : written.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    tasks.push_back(cat(event.at("ts").get<int64_t>(), " ", event.at("name").get<std::string>(), " ",
                        event.at("args").at("operators").get<std::string>()));
    EXPECT_EQ(event.at("tid"), 0);
  }
  EXPECT_EQ(tasks, (std::vector<std::string>{"0 matmul.mm.relu h, a", "1 matmul.mm z"}));
}

}  // namespace
}  // namespace npugraph::ge
