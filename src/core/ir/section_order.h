// SPDX-License-Identifier: Apache-2.0
// The order that streams and events establish between the sections of a graph.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace npugraph::ir {

class SectionOrder {
 public:
  // Requires that `after` names earlier sections only.
  explicit SectionOrder(const std::vector<Section>& sections);

  // Whether all of `a` is done when `b` begins.
  bool precedes(int32_t a, int32_t b) const { return before_[b][a]; }
  // The same, or `a` is `b`.
  bool reaches(int32_t a, int32_t b) const { return a == b || precedes(a, b); }

 private:
  std::vector<std::vector<bool>> before_;  // per section: whether each other one comes before it
};

}  // namespace npugraph::ir
