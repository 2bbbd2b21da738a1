// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_table.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace npugraph::kernels {

std::span<const Kernel> table() {
  static const std::vector<Kernel> all = [] {
    std::vector<Kernel> rows;
    for (const auto part : {memory_kernels(), pointwise_kernels(), matmul_kernels(), embedding_kernels(),
                            order_kernels(), search_kernels(), grouped_kernels(), dump_kernels()}) {
      rows.insert(rows.end(), part.begin(), part.end());
    }
    std::ranges::sort(rows, {}, [](const Kernel& k) { return std::string_view(k.name); });
    return rows;
  }();
  return all;
}

const Kernel* find(std::string_view name) {
  const auto name_of_row = [](const Kernel& k) { return std::string_view(k.name); };
  const auto row = std::ranges::lower_bound(table(), name, {}, name_of_row);
  return row != table().end() && row->name == name ? &*row : nullptr;
}

}  // namespace npugraph::kernels
