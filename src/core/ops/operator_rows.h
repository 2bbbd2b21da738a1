// SPDX-License-Identifier: Apache-2.0
// Tables of other layers, with rows for some operators: {aten::mm::kId, rule_of_products}.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "ir/op.h"

namespace npugraph::ops {

template <typename T>
struct OperatorRow {
  int32_t op;  // kId of its handle
  T value;
};

// The rows of some tables by operator. The tables must outlive it. Immutable, safe to share.
template <typename T>
class OperatorRows {
 public:
  OperatorRows(std::initializer_list<std::span<const OperatorRow<T>>> tables) {
    for (const auto table : tables) {
      for (const OperatorRow<T>& row : table) {
        const auto id = static_cast<size_t>(row.op);
        if (id >= by_id_.size()) by_id_.resize(id + 1, nullptr);
        by_id_[id] = &row.value;
      }
    }
  }

  // Null if the operator has no row.
  const T* find(const ir::Op& op) const {
    return op.in_table() && static_cast<size_t>(op.id) < by_id_.size() ? by_id_[static_cast<size_t>(op.id)] : nullptr;
  }

 private:
  std::vector<const T*> by_id_;  // per ir::Op::id
};

}  // namespace npugraph::ops
