// SPDX-License-Identifier: Apache-2.0
// Runs a model of GE on memory that this program manages, with neither Python nor torch:
//
//   scripts/build release ge_engine_example
//   build/release/bin/ge_engine_example model.air 2x4 3x4
//
// The shapes are those of the inputs, in order. The inputs are of f32 and hold sines. The graph runs three times: with
// its memory at one place, at another one, and on a stream. The results have to be equal.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "ge/api/ge_api.h"

namespace {

using Memory = std::unique_ptr<void, decltype(&std::free)>;
using Tensors = std::vector<ge::Tensor>;

constexpr uint32_t kGraph = 1;
constexpr size_t kAlignment = 64;

void check(ge::Status status) {
  if (status != ge::SUCCESS) throw std::runtime_error(ge::GEGetErrorMsg());
}

Memory allocate(size_t bytes) {
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return {std::aligned_alloc(kAlignment, rounded), &std::free};
}

// A tensor of sines with the shape "2x4".
ge::Tensor input(const std::string& text) {
  std::vector<int64_t> dims;
  std::istringstream sizes(text);
  for (std::string size; std::getline(sizes, size, 'x');) dims.push_back(std::stoll(size));
  const ge::Shape shape(dims);
  std::vector<float> values(static_cast<size_t>(shape.GetShapeSize()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return {ge::TensorDesc(shape, ge::FORMAT_ND, ge::DT_FLOAT), bytes, values.size() * sizeof(float)};
}

void expect_equal(const Tensors& a, const Tensors& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(a[i].GetData(), b[i].GetData(), a[i].GetSize()) != 0)
      throw std::runtime_error("output " + std::to_string(i) + " differs");
  }
}

void use_memory(ge::Session& session, const ge::CompiledGraphSummary& summary, Memory& constants, Memory& features) {
  size_t constant_bytes = 0;
  size_t feature_bytes = 0;
  check(summary.GetConstMemorySize(constant_bytes));
  check(summary.GetFeatureMemorySize(feature_bytes));
  Memory new_constants = allocate(constant_bytes);
  Memory new_features = allocate(feature_bytes);
  if (constant_bytes > 0) check(session.SetGraphConstMemoryBase(kGraph, new_constants.get(), constant_bytes));
  if (feature_bytes > 0) check(session.UpdateGraphFeatureMemoryBase(kGraph, new_features.get(), feature_bytes));
  std::printf("const memory of %zu bytes, feature memory of %zu bytes\n", constant_bytes, feature_bytes);
  constants = std::move(new_constants);  // the graph has left the old memory
  features = std::move(new_features);
}

void print_tasks(const ge::CompiledGraphSummary& summary) {
  ge::StreamAllocationSummaryPtr streams;
  check(summary.GetStreamAllocationSummary(streams));
  for (const auto& [graph, infos] : streams->GetAllLogicalStreamInfos()) {
    for (const ge::LogicalStreamAllocationInfo& stream : infos)
      std::printf("%s, %s\n", graph.GetString(), stream.ToStringInfo().GetString());
  }
}

void run(const char* path, const Tensors& inputs) {
  ge::Graph graph;
  check(graph.LoadFromFile(path));
  std::printf("loaded %s: %zu operators\n", path, graph.GetAllNodes().size());
  Memory constants = allocate(0);
  Memory features = allocate(0);
  ge::Session session({});
  check(session.AddGraph(kGraph, graph));
  check(session.CompileGraph(kGraph));
  const ge::CompiledGraphSummaryPtr summary = session.GetCompiledGraphSummary(kGraph);
  if (summary == nullptr) throw std::runtime_error(ge::GEGetErrorMsg());
  print_tasks(*summary);

  Tensors first;
  Tensors second;
  Tensors third;
  use_memory(session, *summary, constants, features);
  check(session.RunGraph(kGraph, inputs, first));
  use_memory(session, *summary, constants, features);
  check(session.RunGraph(kGraph, inputs, second));
  expect_equal(first, second);
  std::printf("run, memory moved, run: equal\n");
  ge::Stream stream;
  check(session.LoadGraph(kGraph, {}, &stream));
  check(session.ExecuteGraphWithStreamAsync(kGraph, &stream, inputs, third));
  check(stream.Synchronize());
  expect_equal(first, third);
  std::printf("run on a stream: equal\n");
  check(session.RemoveGraph(kGraph));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s model.air [SHAPE OF INPUT 0] ...\n", argv[0]);
    return 2;
  }
  try {
    Tensors inputs;
    for (int i = 2; i < argc; ++i) inputs.push_back(input(argv[i]));
    check(ge::GEInitialize({}));
    run(argv[1], inputs);
    check(ge::GEFinalize());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
