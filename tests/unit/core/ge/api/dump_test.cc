// SPDX-License-Identifier: Apache-2.0
// Tensors that runs write to files, as options of graphs and sessions ask.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "ge/api/api_testing.h"
#include "temporary_folder.h"
#include "tensor/npy.h"

namespace npugraph::ge {
namespace {

using Options = std::map<std::string, std::string>;

class Dumped : public EngineApi {
 protected:
  // -relu(x), twice, with these options of the graph.
  void run(Options options) {
    options.emplace("ge.exec.dumpPath", folder_.path().string());
    ::ge::Session session({});
    ASSERT_OK(
        session.AddGraph(1,
                         graph_of_ops({data("x", 0, {3}), Op("Relu", "act", {"x:0"}),
                                       Op("Neg", "block/neg.1", {"act:0"}), Op("NetOutput", "out", {"block/neg.1:0"})}),
                         options));
    for (int i = 0; i < 2; ++i) {
      Tensors outputs;
      ASSERT_OK(session.RunGraph(1, {tensor({3}, {-1, 2, static_cast<float>(i)})}, outputs));
      EXPECT_EQ(floats(outputs[0]), (std::vector<float>{0, -2, static_cast<float>(-i)}));
    }
  }

  // The files by run and name, without the times in names: "0/Relu.act.1.0.input.0.npy".
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (!entry.is_regular_file()) continue;
      const std::string run = entry.path().parent_path().filename(), name = entry.path().filename();
      const size_t begin = std::min(name.find(".input"), name.find(".output"));
      found.emplace(cat(run, "/", name.substr(0, name.rfind('.', begin - 1)), name.substr(begin)), entry.path());
    }
    return found;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, path] : files()) all.push_back(name);
    return all;
  }

  std::vector<float> elements(const std::string& name) const {
    const NpyArray array = read_npy(files().at(name));
    EXPECT_EQ(array.sizes, std::vector<int64_t>{3});
    const auto* data = reinterpret_cast<const float*>(array.data.data());
    return {data, data + array.data.size() / sizeof(float)};
  }

  TemporaryFolder folder_;
};

using Names = std::vector<std::string>;

TEST_F(Dumped, TensorsAreThoseOfTheRun) {
  run({{"ge.exec.enableDump", "1"}, {"ge.exec.dumpStep", "1-3"}});
  EXPECT_EQ(names(), (Names{"1/Neg.block_neg_1.2.0.input.0.npy", "1/Neg.block_neg_1.2.0.output.0.npy",
                            "1/Relu.act.1.0.input.0.npy", "1/Relu.act.1.0.output.0.npy"}));
  EXPECT_EQ(elements("1/Relu.act.1.0.input.0.npy"), (std::vector<float>{-1, 2, 1}));
  EXPECT_EQ(elements("1/Relu.act.1.0.output.0.npy"), (std::vector<float>{0, 2, 1}));
  EXPECT_EQ(elements("1/Neg.block_neg_1.2.0.output.0.npy"), (std::vector<float>{0, -2, -1}));
}

TEST_F(Dumped, LayersAndSidesAreChosen) {
  run({{"ge.exec.enableDump", "1"}, {"ge.exec.dumpLayer", "none  act"}, {"ge.exec.dumpMode", "output"}});
  EXPECT_EQ(names(), (Names{"0/Relu.act.1.0.output.0.npy", "1/Relu.act.1.0.output.0.npy"}));
}

TEST_F(Dumped, NothingIsWrittenWithoutTheOption) {
  run({{"ge.exec.enableDump", "0"}});
  EXPECT_EQ(names(), Names{});
}

TEST_F(Dumped, StatisticsAreRows) {
  run({{"ge.exec.enableDump", "1"},
       {"ge.exec.dumpData", "stats"},
       {"ge.exec.dumpLayer", "act"},
       {"ge.exec.dumpStep", "0"}});
  ASSERT_EQ(names(), (Names{"0/Relu.act.1.0.input.csv", "0/Relu.act.1.0.output.csv"}));
  std::ifstream file(files().at("0/Relu.act.1.0.input.csv"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text.substr(text.find('\n') + 1), "Input,0,12,f32,ND,3,2,-1,0.3333333333333333,3,0,0,0\n");
}

TEST_F(Dumped, AFileHasFurtherSettings) {
  const auto path = folder_.path() / "dump.json";
  const uint64_t next = ::ge::Session({}).GetSessionId() + 1;
  std::ofstream(path) << cat(R"({"dump": {"dump_list": [{"model_name": "g_)", next, R"(_1", "layer": ["act"]},
                                                        {"model_name": "other", "layer": ["block/neg.1"]}],
                                          "dump_mode": "input", "dump_step": "1", "dump_op_switch": "off"}})");
  run({{"ge_dump_with_acl_config", path.string()}});
  std::filesystem::remove(path);
  EXPECT_EQ(names(), (Names{"1/Relu.act.1.0.input.0.npy"}));
}

TEST_F(Dumped, WrongValuesAreRefused) {
  ::ge::Session session({});
  const ::ge::Graph graph = graph_of_ops({data("x", 0, {3}), Op("NetOutput", "out", {"x:0"})});
  const auto path = folder_.path() / "dump.json";
  std::ofstream(path) << R"({"dump": {"dump_scene": "watcher"}})";
  const std::vector<std::pair<Options, std::string>> wrong = {
      {{{"ge.exec.dumpMode", "both"}}, "option 'ge.exec.dumpMode' is 'input' or 'output' or 'all', got 'both'"},
      {{{"ge.exec.dumpStep", "1|"}}, "option 'ge.exec.dumpStep' is numbers and ranges of numbers such as '0|1|2-5'"},
      {{{"ge.exec.dumpStep", "a"}}, "got 'a'"},
      {{{"ge.exec.dumpData", "all"}}, "option 'ge.exec.dumpData' is 'tensor' or 'stats', got 'all'"},
      {{{"ge_dump_with_acl_config", path.string()}}, "there is no setting 'dump_scene'"},
      {{{"ge_dump_with_acl_config", "/none.json"}}, "settings of a dump in /none.json"},
  };
  for (auto [options, message] : wrong) {
    options.emplace("ge.exec.enableDump", "1");
    EXPECT_FAILS(session.AddGraph(1, graph, options), PARAM_INVALID, message);
  }
}

// A dump that cannot be written fails the run, and says why.
TEST_F(Dumped, AFailureIsToldByTheRun) {
  const auto taken = folder_.path() / "taken";
  std::ofstream(taken) << "a file";
  ::ge::Session session({});
  ASSERT_OK(session.AddGraph(
      1, graph_of_ops({data("x", 0, {3}), Op("Relu", "act", {"x:0"}), Op("NetOutput", "out", {"act:0"})}),
      Options{{"ge.exec.enableDump", "1"}, {"ge.exec.dumpPath", taken.string()}}));
  Tensors outputs;
  EXPECT_FAILS(session.RunGraph(1, {tensor({3}, {1, 2, 3})}, outputs), FAILED, "the dump of tensors");
}

}  // namespace
}  // namespace npugraph::ge
