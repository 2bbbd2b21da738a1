// SPDX-License-Identifier: Apache-2.0
// The largest error of each f32 function over all its arguments (2^32; 2^28 random pairs for functions of two), on this
// processor or a lower baseline (NPUGRAPH_TARGET). Prints a line per function; fails where an error exceeds 2 ulp.
//   math_exhaustive [function...]
#include <atomic>
#include <bit>
#include <cstdio>
#include <random>
#include <thread>

#include "codegen/kernel/math_case.h"

namespace npugraph::codegen {
namespace {

constexpr int64_t kBlock = 1 << 16;

struct Worst {
  double error = 0;
  float x = 0, y = 0, got = 0;
};

void fill(int64_t block, bool pairs, std::vector<float>& x, std::vector<float>& y) {
  std::mt19937_64 random(block);
  for (int64_t i = 0; i < kBlock; ++i) {
    const uint64_t bits = pairs ? random() : static_cast<uint64_t>(block * kBlock + i);
    x[i] = std::bit_cast<float>(static_cast<uint32_t>(bits));
    y[i] = std::bit_cast<float>(static_cast<uint32_t>(bits >> 32));
  }
}

void search(const MathLoop<float>& loop, loop::Op op, std::atomic<int64_t>& next, Worst& worst) {
  const bool pairs = loop::info_of(op).arity == 2;
  const int64_t blocks = (pairs ? int64_t{1} << 28 : int64_t{1} << 32) / kBlock;
  std::vector<float> x(kBlock), y(kBlock), got(kBlock);
  for (int64_t block = next++; block < blocks; block = next++) {
    fill(block, pairs, x, y);
    // The exponents of random pairs are too far apart for most functions, so in every second block they are near.
    if (pairs && block % 2 == 0) {
      for (int64_t i = 0; i < kBlock; ++i) y[i] = std::ldexp(y[i], -std::ilogb(y[i]) + static_cast<int>(i % 16) - 8);
    }
    loop(x.data(), y.data(), got.data(), kBlock);
    for (int64_t i = 0; i < kBlock; ++i) {
      const double error = ulp_error(got[i], exact_value(op, x[i], y[i]));
      if (error > worst.error) worst = {error, x[i], y[i], got[i]};
    }
  }
}

// Prints the largest error of the function and returns whether it is within the bound.
bool examine(loop::Op op) {
  const target::Target& target = target::host_target();
  const MathLoop<float> loop(target, op, target.lanes(DType::kF32));
  std::vector<Worst> worst(std::max(1u, std::thread::hardware_concurrency()));
  std::atomic<int64_t> next = 0;
  {
    std::vector<std::jthread> threads;
    for (Worst& mine : worst) threads.emplace_back([&] { search(loop, op, next, mine); });
  }
  Worst all;
  for (const Worst& one : worst) all = one.error > all.error ? one : all;
  std::printf("%-12s %6.3f ulp at %a %a: %a\n", std::string(loop::info_of(op).name).c_str(), all.error, all.x, all.y,
              all.got);
  std::fflush(stdout);
  return all.error <= 2;
}

}  // namespace
}  // namespace npugraph::codegen

int main(int argc, char** argv) {
  using namespace npugraph;
  std::vector<loop::Op> ops;
  for (int i = 1; i < argc; ++i) {
    const auto op = loop::parse_op(argv[i]);
    if (!op || !codegen::is_math(*op)) {
      std::fprintf(stderr, "no mathematical function %s\n", argv[i]);
      return 2;
    }
    ops.push_back(*op);
  }
  bool good = true;
  for (const loop::Op op : ops.empty() ? codegen::math_ops() : ops) good &= codegen::examine(op);
  return good ? 0 : 1;
}
