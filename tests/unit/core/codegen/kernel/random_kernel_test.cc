// SPDX-License-Identifier: Apache-2.0
// Random kernels, for every target of the host: generated code gives the results of the interpreter.
#include "loop/random_kernel.h"

#include "codegen/kernel/kernel_testing.h"

namespace npugraph::codegen {
namespace {

using loop::testing::RandomCase;
using loop::testing::RandomOptions;

std::string run_generated(RandomCase& c, const target::Target& target, int workers) {
  std::vector<Array> arrays;
  for (const auto& buffer : c.buffers) arrays.push_back({buffer.dtype, buffer.bytes});
  const std::string error = run_generated(c.kernel, target, arrays, c.scalars, workers);
  for (size_t i = 0; i < arrays.size(); ++i) c.buffers[i].bytes = std::move(arrays[i].bytes);
  return error;
}

void test_cases(uint32_t first, uint32_t count, const RandomOptions& options) {
  for (uint32_t seed = first; seed < first + count; ++seed) {
    const RandomCase start = loop::testing::random_case(seed, options);
    RandomCase expected = start;
    const std::string error = loop::testing::interpret(expected);
    for (const target::Target& target : target::host_targets()) {
      RandomCase got = start;
      const std::string got_error = run_generated(got, target, seed % 2 == 0 ? 1 : 3);
      const std::string what = cat("seed ", seed, ", ", target.level, "\n", loop::print(start.kernel));
      // Lanes and threads may fail at the same time, and then any of the failures is reported.
      ASSERT_EQ(got_error.empty(), error.empty()) << got_error << error << what;
      if (!error.empty()) continue;
      ASSERT_EQ(loop::testing::difference(expected, got), "") << what;
    }
  }
}

TEST(RandomKernels, DoWhatTheInterpreterDoes) { test_cases(1, 60, {}); }
TEST(RandomKernels, TreatNanAndInfinitiesAlike) { test_cases(1001, 40, {.special_values = true}); }
TEST(RandomKernels, FailAlike) { test_cases(2001, 40, {.failures = true}); }

}  // namespace
}  // namespace npugraph::codegen
