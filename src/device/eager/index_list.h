// SPDX-License-Identifier: Apache-2.0
// Lists of indices for CPU kernels.
#pragma once

#include <optional>
#include <utility>

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include "device/npu/tensor.h"

namespace npugraph::eager {

using IndexList = c10::List<std::optional<at::Tensor>>;

// An empty list for aliases, which are given back by the destructor, the last one first. Making a list costs two
// allocations, so each thread keeps one.
class ReusedIndexList {
 public:
  ReusedIndexList() : kept_(kept()) {
    if (kept_ == nullptr || kept_->is_taken) kept_ = &own_.emplace();
    kept_->is_taken = true;
  }
  ReusedIndexList(const ReusedIndexList&) = delete;
  ReusedIndexList& operator=(const ReusedIndexList&) = delete;
  ~ReusedIndexList() {
    kept_->is_taken = false;
    IndexList& list = kept_->list;
    if (list.use_count() != 1) {  // a kernel keeps it
      list = IndexList();
      return;
    }
    for (size_t place = list.size(); place-- > 0;)
      if (std::optional<at::Tensor> index = list.extract(place)) npu::reuse_alias(*std::move(index));
    list.clear();
  }

  const IndexList& list() const { return kept_->list; }

 private:
  struct Kept {
    IndexList list;
    bool is_taken = false;
  };

  // Null at the end of the thread, when objects that are destroyed after the list may still call operators.
  static Kept* kept() {
    static constinit thread_local bool is_gone = false;
    struct Owned : Kept {
      ~Owned() { is_gone = true; }
    };
    if (is_gone) return nullptr;
    static thread_local Owned out;
    return &out;
  }

  Kept* kept_;
  std::optional<Kept> own_;
};

}  // namespace npugraph::eager
