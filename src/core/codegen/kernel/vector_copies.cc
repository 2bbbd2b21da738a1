// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernel/vector_copies.h"

#include <algorithm>

namespace npugraph::codegen {
namespace {

constexpr int kMostCopies = 4;
constexpr double kLoop = 2;    // instructions of an iteration beside its body
constexpr double kMasked = 3;  // additional ones of a vector of which some lanes may not run
constexpr int64_t kUsualVectors = 64;

}  // namespace

std::vector<int> copy_candidates(const VectorBody& body) {
  std::vector<int> candidates = {1};
  for (int copies = 2; copies <= kMostCopies; copies *= 2) {
    if (!body.extent || *body.extent >= int64_t{body.lanes} * copies) candidates.push_back(copies);
  }
  return candidates;
}

double cost_of(const VectorBody& body, int copies, const target::Target& target) {
  // Statements whose values do not fit in registers wait for each other.
  const double held = 0.625 * target.vector_registers;
  const double waiting = std::max(0.0, body.statements * copies - held) / 8;
  const double whole = body.statements + kLoop / copies + waiting;
  const int64_t extent = body.extent.value_or(kUsualVectors * body.lanes);
  const int64_t vectors = std::max<int64_t>((extent + body.lanes - 1) / body.lanes, 1);
  const int64_t step = int64_t{body.lanes} * copies;
  // The remaining iterations run under a mask, one vector at a time.
  const int64_t masked = (extent % step + body.lanes - 1) / body.lanes;
  const double left = static_cast<double>(masked) * (body.statements + kLoop + kMasked);
  return (static_cast<double>(vectors - masked) * whole + left) / static_cast<double>(vectors);
}

int choose_copies(const VectorBody& body, const target::Target& target) {
  const std::vector<int> candidates = copy_candidates(body);
  return *std::min_element(candidates.begin(), candidates.end(),
                           [&](int a, int b) { return cost_of(body, a, target) < cost_of(body, b, target); });
}

}  // namespace npugraph::codegen
