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

TEST(Engine, OperatorsWithoutCodeAreNamed) {
  try {
    Compiled({data("x", 0, {5}), Op("Abs", "a", {"x:0"}), Op("LRN", "y", {"a:0"}), Op("NetOutput", "out", {"y:0"})});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "operator 'y' of type LRN: the engine does not compute operators of this type");
  }
}

}  // namespace
}  // namespace npugraph::ge
