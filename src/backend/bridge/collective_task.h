// SPDX-License-Identifier: Apache-2.0
// Collectives between processes as tasks. One task begins a collective, on the process group that has the name at that
// time, and stores an object for the pending collective (UnderWay). The other task waits for that object.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "abi/task.h"
#include "backend/bridge/borrowed_tensor.h"
#include "backend/bridge/declared.h"
#include "backend/own_kernels/export.h"
#include "program/program.h"

namespace npugraph::bridge {

// The pending collectives of one task, as an object of the runtime. Its destructor waits for them, too, so that no
// memory is freed while other threads write it. Not thread-safe.
class NPUGRAPH_EXPORT UnderWay final : public c10::TensorImpl {
 public:
  // tensor() may be called at most `operands` times.
  explicit UnderWay(size_t operands);
  ~UnderWay() override;

  // A tensor over the memory of an operand, whose object is kept alive until the collectives have ended.
  at::Tensor tensor(const DeclaredOperand& declared, const ng_buffer& buffer);
  // wait() copies `data` to `memory` when the collectives have ended.
  void land(at::Tensor data, at::Tensor memory) { landings_.emplace_back(std::move(data), std::move(memory)); }
  // Adds a collective that reads and writes `tensors`. `work` may be null.
  void add(c10::intrusive_ptr<c10d::Work> work, const std::vector<at::Tensor>& tensors);

  // Waits until all collectives have ended; then throws the first exception that one of them threw.
  void wait();

 private:
  std::vector<BorrowedTensor> memories_;  // behind the results of tensor()
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
  std::vector<at::Tensor> kept_;  // tensors that the collectives read and write, and the objects of operands
  std::vector<std::pair<at::Tensor, at::Tensor>> landings_;
};

// UserError for a collective that does not exist.
ng_task build_collective_task(const program::Program& program, const program::Task& task);

// Replaces the name of each process group in the collectives of the Program by rename(name, ranks).
void rename_groups(program::Program& program,
                   const std::function<std::string(const std::string&, const std::vector<int64_t>&)>& rename);

}  // namespace npugraph::bridge
