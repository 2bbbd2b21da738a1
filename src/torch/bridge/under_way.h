// SPDX-License-Identifier: Apache-2.0
// What collectives of one task are doing: an object of the runtime, which stands for them until somebody waits. Whoever drops it
// waits, too, so that no memory goes while other threads write it. Not thread-safe.
#pragma once

#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "abi/task.h"
#include "torch/bridge/borrowed_tensor.h"
#include "torch/bridge/declared.h"

namespace npugraph::bridge {

class UnderWay final : public c10::TensorImpl {
 public:
  // For tensors over at most `operands` operands.
  explicit UnderWay(size_t operands);
  ~UnderWay() override;

  // Over the memory of an operand, whose object lives until the collectives have ended.
  at::Tensor tensor(const DeclaredOperand& declared, const ng_buffer& buffer);
  // Where the elements of `data` go when they have come.
  void land(at::Tensor data, at::Tensor memory) { landings_.emplace_back(std::move(data), std::move(memory)); }
  // A collective that reads and writes `tensors`; null for none.
  void add(c10::intrusive_ptr<c10d::Work> work, const std::vector<at::Tensor>& tensors);

  // Throws what a collective threw, when all others have ended.
  void wait();

 private:
  std::vector<BorrowedTensor> memories_;  // of the tensors
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
  std::vector<at::Tensor> kept_;  // what the collectives read and write, and its owners
  std::vector<std::pair<at::Tensor, at::Tensor>> landings_;
};

}  // namespace npugraph::bridge
