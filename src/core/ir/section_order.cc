// SPDX-License-Identifier: Apache-2.0
#include "ir/section_order.h"

#include <unordered_map>

namespace npugraph::ir {

SectionOrder::SectionOrder(const std::vector<Section>& sections) {
  const auto count = static_cast<int32_t>(sections.size());
  std::unordered_map<int32_t, int32_t> last_of_stream;
  for (int32_t id = 0; id < count; ++id) {
    std::vector<bool> before(count, false);
    const auto add = [&](int32_t other) {
      before[other] = true;
      for (int32_t i = 0; i < other; ++i) before[i] = before[i] || before_[other][i];
    };
    for (const int32_t other : sections[id].after) add(other);
    const auto [last, is_first] = last_of_stream.try_emplace(sections[id].stream, id);
    if (!is_first) add(last->second);
    last->second = id;
    before_.push_back(std::move(before));
  }
}

}  // namespace npugraph::ir
