// SPDX-License-Identifier: Apache-2.0
// Lists of indices for CPU kernels.
#pragma once

#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/List.h>

#include "torch/npu/tensor.h"

namespace npugraph::device {

using IndexList = c10::List<std::optional<at::Tensor>>;

// An empty list for aliases, which are given back with it. To make a list costs two allocations, so each thread keeps one that
// nobody else holds.
class ReusedIndexList {
 public:
  ReusedIndexList() : list_(spare().has_value() ? *std::exchange(spare(), std::nullopt) : IndexList()) {}
  ReusedIndexList(ReusedIndexList&&) = default;
  ~ReusedIndexList() {
    if (list_.use_count() != 1) return;  // moved away, or held by another
    for (size_t place = 0; place < list_.size(); ++place)
      if (std::optional<at::Tensor> index = list_.extract(place)) npu::reuse_alias(*std::move(index));
    list_.clear();
    spare() = std::move(list_);
  }

  const IndexList& list() const { return list_; }

 private:
  static std::optional<IndexList>& spare() {
    thread_local std::optional<IndexList> out;
    return out;
  }

  IndexList list_;
};

}  // namespace npugraph::device
