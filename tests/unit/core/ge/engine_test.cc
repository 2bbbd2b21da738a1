// SPDX-License-Identifier: Apache-2.0
// Models that are compiled and run in a process without torch.
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "compiler/task_makers.h"
#include "ge/engine/compile.h"
#include "ge/import/import.h"
#include "ge/model_builder.h"
#include "runtime/executable.h"
#include "runtime/malloc_host.h"

namespace npugraph::ge {
namespace {

struct Array {
  std::vector<int64_t> sizes;
  std::vector<float> data;
};

// A model of f32 tensors, ready to run.
class Compiled {
 public:
  explicit Compiled(const std::vector<Op>& ops) {
    auto result = compile_model(model_of(ops));
    auto program = std::make_shared<const program::Program>(std::move(result.program));
    executable_ =
        std::make_unique<runtime::Executable>(program, host_, compiler::make_task, runtime::Options{}, "test");
  }

  std::vector<float> run(std::vector<Array> inputs) {
    std::vector<runtime::BoundInput> bound(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      bound[i].data = inputs[i].data.data();
      bound[i].sizes = inputs[i].sizes.data();
    }
    std::vector<runtime::BoundOutput> outputs(1);
    std::vector<int64_t> dims;
    const runtime::RunResult result = executable_->run({.all = bound}, outputs, dims);
    EXPECT_EQ(result.status, runtime::RunStatus::kOk) << result.error;
    int64_t elements = 1;
    for (const int64_t size : outputs[0].sizes) elements *= size;
    const auto* data = static_cast<const float*>(outputs[0].data);
    std::vector<float> values(data, data + elements);
    if (outputs[0].object != nullptr) host_.release(outputs[0].object);
    return values;
  }

 private:
  runtime::MallocHost host_;
  std::unique_ptr<runtime::Executable> executable_;
};

Array ramp(const std::vector<int64_t>& sizes, float step) {
  Array array{sizes, {}};
  int64_t elements = 1;
  for (const int64_t size : sizes) elements *= size;
  for (int64_t i = 0; i < elements; ++i) array.data.push_back(std::sin(step * static_cast<float>(i)));
  return array;
}

// Also where the host has no operator that would concatenate them.
TEST(Engine, ConcatenatesTensorsWithoutElements) {
  Compiled model({data("x", 0, {2, 3}), int_list("none", {0, 1}), Op("Tile", "e", {"x:0", "none:0"}),
                  constant<int64_t>("axis", WireType::kInt64, {}, {0}),
                  Op("ConcatV2", "y", {"e:0", "e:0", "axis:0"}).attr("N", int64_t{2}),
                  Op("NetOutput", "out", {"y:0"})});
  EXPECT_EQ(model.run({ramp({2, 3}, 0.1f)}), std::vector<float>());
}

// The operators of each task, at these levels.
std::vector<std::string> origins(const std::vector<Op>& ops, const EngineOptions& options) {
  const Model model = model_of(ops);
  const auto compiled = compile_imported(import_graph(model, graph_of(model), Device{}), options);
  std::vector<std::string> all;
  for (const program::Task& task : compiled.program.tasks) all.push_back(task.origin);
  return all;
}

TEST(Engine, LevelsSayWhatIsFusedAndRemoved) {
  using Names = std::vector<std::string>;
  const std::vector<Op> chain = {data("x", 0, {64, 64}), Op("Relu", "a", {"x:0"}), Op("Neg", "b", {"a:0"}),
                                 Op("Exp", "c", {"b:0"}), Op("NetOutput", "out", {"c:0"})};
  EXPECT_EQ(origins(chain, {}), Names{"a, b, c"});
  EXPECT_EQ(origins(chain, {{"ge.oo.level", "O3"}}), Names{"a, b, c"});
  EXPECT_EQ(origins(chain, {{"ge.oo.level", "O1"}}), (Names{"a", "b", "c"}));
  const std::vector<Op> dead = {data("x", 0, {64, 64}), Op("Relu", "a", {"x:0"}), Op("Neg", "b", {"x:0"}),
                                Op("NetOutput", "out", {"a:0"})};
  EXPECT_EQ(origins(dead, {}), Names{"a"});
  EXPECT_EQ(origins(dead, {{"ge.oo.level", "O1"}, {"ge.oo.deadCodeElimination", "false"}}), (Names{"a", "b"}));
  EXPECT_THROW(origins(chain, {{"ge.oo.level", "O2"}}), UserError);
  EXPECT_THROW(origins(chain, {{"ge.oo.deadCodeElimination", "1"}}), UserError);
}

// y = relu(x w^T + b) + r, with an unknown number of rows in x and in r.
TEST(Engine, OneCompileServesAllSizes) {
  const Array w = ramp({3, 4}, 0.3f), b = ramp({3}, 0.7f);
  Compiled model({data("x", 0, {-1, 4}), data("r", 1, {-1, 3}), constant("w", WireType::kFloat, {3, 4}, w.data),
                  constant("b", WireType::kFloat, {3}, b.data),
                  Op("MatMulV2", "h", {"x:0", "w:0", "b:0"}).attr("transpose_x2", true), Op("Relu", "a", {"h:0"}),
                  Op("Add", "y", {"a:0", "r:0"}), Op("NetOutput", "out", {"y:0"})});
  for (const int64_t rows : {1, 2, 17}) {
    const Array x = ramp({rows, 4}, 0.1f), r = ramp({rows, 3}, 0.2f);
    const std::vector<float> y = model.run({x, r});
    ASSERT_EQ(y.size(), static_cast<size_t>(rows * 3));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < 3; ++j) {
        float sum = b.data[j];
        for (int64_t k = 0; k < 4; ++k) sum += x.data[i * 4 + k] * w.data[j * 4 + k];
        EXPECT_NEAR(y[i * 3 + j], std::max(sum, 0.0f) + r.data[i * 3 + j], 1e-5);
      }
    }
  }
}

// A single small operator has no operator of the host to fall back on.
TEST(Engine, SmallOperatorsBecomeCode) {
  Compiled model({data("x", 0, {5}), Op("Exp", "y", {"x:0"}), Op("NetOutput", "out", {"y:0"})});
  const Array x = ramp({5}, 0.4f);
  const std::vector<float> y = model.run({x});
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(y[i], std::exp(x.data[i]), 1e-6);
}

// A shape that the graph computes from an input: [rows, 2, 3] -> [rows * 2, 3].
TEST(Engine, ComputedShapesServeAllSizes) {
  Compiled model({data("x", 0, {-1, 2, 3}), Op("Shape", "shape", {"x:0"}), int_list("first", {0}), int_list("one", {1}),
                  constant<int64_t>("axis", WireType::kInt64, {}, {0}), int_list("two", {2}), int_list("three", {3}),
                  Op("GatherV2", "rows", {"shape:0", "first:0", "axis:0"}), Op("Mul", "joined", {"rows:0", "two:0"}),
                  Op("ConcatV2", "wanted", {"joined:0", "three:0", "axis:0"}),
                  Op("Reshape", "flat", {"x:0", "wanted:0"}), Op("Neg", "y", {"flat:0"}),
                  Op("NetOutput", "out", {"y:0"})});
  for (const int64_t rows : {1, 4}) {
    const Array x = ramp({rows, 2, 3}, 0.2f);
    const std::vector<float> y = model.run({x});
    ASSERT_EQ(y.size(), x.data.size());
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], -x.data[i]);
  }
}

// The mean of each window of 2, of images whose width only a call knows.
TEST(Engine, WindowsOfUnknownSizes) {
  const std::vector<int64_t> window = {1, 1, 1, 2};
  Compiled model({data("x", 0, {1, 2, 1, -1}),
                  Op("AvgPoolV2", "p", {"x:0"}).attr("ksize", window).attr("strides", window), Op("Neg", "y", {"p:0"}),
                  Op("NetOutput", "out", {"y:0"})});
  for (const int64_t width : {2, 7}) {
    const Array x = ramp({1, 2, 1, width}, 0.3f);
    const std::vector<float> y = model.run({x});
    const int64_t windows = width / 2;
    ASSERT_EQ(y.size(), static_cast<size_t>(2 * windows));
    for (int64_t i = 0; i < 2 * windows; ++i) {
      const int64_t at = i / windows * width + 2 * (i % windows);
      EXPECT_NEAR(y[i], -(x.data[at] + x.data[at + 1]) / 2, 1e-6);
    }
  }
}

// [images, 2, 3] with two groups of one channel: each channel has the mean 0 and, before epsilon, the variance 1.
TEST(Engine, GroupsAreNormalised) {
  const Array gamma = {{2}, {1, 2}}, beta = {{2}, {0, 1}};
  for (const char* output : {"n:0", "n:1", "n:2"}) {
    Compiled model({data("x", 0, {-1, 2, 3}), constant("g", WireType::kFloat, {2}, gamma.data),
                    constant("b", WireType::kFloat, {2}, beta.data),
                    Op("GroupNorm", "n", {"x:0", "g:0", "b:0"})
                        .attr("num_groups", int64_t{2})
                        .attr("data_format", "NCHW")
                        .attr("eps", 0.5f),
                    Op("NetOutput", "out", {output})});
    const Array x = {{1, 2, 3}, {1, 2, 3, 4, 4, 10}};
    const float means[] = {2, 6}, variances[] = {2.0f / 3, 8};
    const std::vector<float> y = model.run({x});
    ASSERT_EQ(y.size(), output == std::string("n:0") ? 6u : 2u);
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t c = y.size() == 2 ? i : i / 3;
      const float normal = (x.data[i] - means[c]) / std::sqrt(variances[c] + 0.5f) * gamma.data[c] + beta.data[c];
      EXPECT_NEAR(y[i], y.size() == 6 ? normal : output == std::string("n:1") ? means[c] : variances[c], 1e-5);
    }
  }
}

TEST(Engine, LogarithmsHaveABaseAndNormsAreAtLeastEpsilon) {
  Compiled logarithm({data("x", 0, {3}),
                      Op("Log", "y", {"x:0"}).attr("base", 3.0f).attr("scale", 2.0f).attr("shift", 1.0f),
                      Op("NetOutput", "out", {"y:0"})});
  const std::vector<float> y = logarithm.run({{{3}, {0, 1, 4}}});
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(y[i], static_cast<float>(i), 1e-6);

  Compiled norm({data("x", 0, {2, 2}),
                 Op("LpNormV2", "y", {"x:0"}).attr("axes", std::vector<int64_t>{-1}).attr("epsilon", 2.0f),
                 Op("NetOutput", "out", {"y:0"})});
  EXPECT_EQ(norm.run({{{2, 2}, {3, 4, 0, 1}}}), (std::vector<float>{5, 2}));
}

// Bounds, a factor and a filler that are inputs and no constants.
TEST(Engine, NumbersMayComeFromTheCall) {
  const Array x = {{4}, {-3, -1, 1, 3}}, low = {{}, {-2}}, high = {{}, {0.5}};
  Compiled clip({data("x", 0, {4}), data("low", 1, {}), data("high", 2, {}),
                 Op("ClipByValueV2", "y", {"x:0", "low:0", "high:0"}), Op("NetOutput", "out", {"y:0"})});
  EXPECT_EQ(clip.run({x, low, high}), (std::vector<float>{-2, -1, 0.5, 0.5}));
  Compiled axpy({data("x", 0, {4}), data("alpha", 1, {}), Op("AxpyV2", "y", {"x:0", "x:0", "alpha:0"}),
                 Op("NetOutput", "out", {"y:0"})});
  EXPECT_EQ(axpy.run({x, low}), (std::vector<float>{3, 1, -1, -3}));
  Compiled fill({data("x", 0, {4}), data("value", 1, {}), constant<uint8_t>("m", WireType::kBool, {4}, {1, 0, 0, 1}),
                 Op("MaskedFill", "y", {"x:0", "m:0", "value:0"}), Op("NetOutput", "out", {"y:0"})});
  EXPECT_EQ(fill.run({x, high}), (std::vector<float>{0.5, -1, 1, 0.5}));
}

// Rows -1 and 0 of three become `value`, which may have to be broadcast.
TEST(Engine, PutsCountFromTheEndAndBroadcast) {
  const Array x = {{3, 2}, {1, 2, 3, 4, 5, 6}};
  const auto put = [&](const Array& value, bool accumulate) {
    Compiled model(
        {data("x", 0, {3, 2}), data("v", 1, value.sizes), int_list("rows", {-1, 0}), int_list("mask", {1, 0}),
         int_list("strides", {0, 0}),
         Op("IndexPutV2", "y", {"x:0", "v:0", "mask:0", "strides:0", "rows:0"}).attr("accumulate", accumulate),
         Op("NetOutput", "out", {"y:0"})});
    return model.run({x, value});
  };
  EXPECT_EQ(put({{2, 2}, {10, 20, 30, 40}}, false), (std::vector<float>{30, 40, 3, 4, 10, 20}));
  EXPECT_EQ(put({{1, 2}, {10, 20}}, false), (std::vector<float>{10, 20, 3, 4, 10, 20}));
  EXPECT_EQ(put({{2, 1}, {10, 20}}, false), (std::vector<float>{20, 20, 3, 4, 10, 10}));
  EXPECT_EQ(put({{}, {7}}, false), (std::vector<float>{7, 7, 3, 4, 7, 7}));
  EXPECT_EQ(put({{2, 2}, {10, 20, 30, 40}}, true), (std::vector<float>{31, 42, 3, 4, 15, 26}));
}

// Several updates of one place: the last one stays, or all are added.
TEST(Engine, ScattersKeepTheOrderOfUpdates) {
  for (const char* reduction : {"none", "add"}) {
    Compiled model(
        {data("x", 0, {1, 4}), constant<int64_t>("i", WireType::kInt64, {1, 3}, {2, 0, 2}), data("u", 1, {1, 3}),
         Op("ScatterElements", "y", {"x:0", "i:0", "u:0"}).attr("axis", int64_t{1}).attr("reduction", reduction),
         Op("NetOutput", "out", {"y:0"})});
    const std::vector<float> y = model.run({{{1, 4}, {1, 2, 3, 4}}, {{1, 3}, {10, 20, 30}}});
    const bool adds = reduction == std::string("add");
    EXPECT_EQ(y, adds ? (std::vector<float>{21, 2, 43, 4}) : (std::vector<float>{20, 2, 30, 4}));
  }
}

TEST(Engine, OperatorsWithoutCodeAreNamed) {
  try {
    Compiled({data("x", 0, {5}), Op("Abs", "a", {"x:0"}), Op("LRN", "y", {"a:0"}), Op("NetOutput", "out", {"y:0"})});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_TRUE(contains(error.what(), "operator 'y' of type LRN: the engine does not compute operators of this type"));
  }
}

}  // namespace
}  // namespace npugraph::ge
