// SPDX-License-Identifier: Apache-2.0
#include "target/costs.h"

#include <algorithm>

namespace npugraph::target {
namespace {

constexpr int64_t kThreads = 2;

}  // namespace

Costs costs_of(const Target& target) {
  // Processors without masks need more instructions for the same work. Processors with AMX have a third-level cache
  // that many cores share over a mesh.
  return {.instruction = target.masks ? 0.1 : 0.12,
          .multiply = 0.15,
          .amx_multiply = 0.02,
          .iteration = 0.2,
          .loop = 4,
          .element = 0.25,
          .line = 2,
          .region = 700,
          .range = 50,
          .l2_byte = 0.005,
          .l3_byte = target.amx ? 0.033 : 0.009,
          .memory_byte = 0.038,
          .handed_byte = 0.1};
}

double byte_cost(const Target& target, double bytes) {
  const Costs costs = costs_of(target);
  if (bytes <= static_cast<double>(target.l1_bytes)) return 0;
  if (bytes <= static_cast<double>(target.l2_bytes)) return costs.l2_byte;
  return bytes <= static_cast<double>(target.l3_bytes) ? costs.l3_byte : costs.memory_byte;
}

int64_t ranges_of(int64_t items, int64_t grain) {
  constexpr int64_t kRangesOfAThread = 4;
  return std::clamp<int64_t>(items / std::max<int64_t>(grain, 1), 1, kThreads * kRangesOfAThread);
}

double share_of(int64_t items, int64_t grain) {
  constexpr double kWait = 0.25;
  const int64_t ranges = ranges_of(items, grain);
  if (ranges == 1) return static_cast<double>(items);
  const int64_t length = (items + ranges - 1) / ranges;
  const int64_t count = (items + length - 1) / length;
  const int64_t share = std::min((count + kThreads - 1) / kThreads * length, items);
  return static_cast<double>(share) + kWait * static_cast<double>(length);
}

}  // namespace npugraph::target
