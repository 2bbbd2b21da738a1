// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/under_way.h"

#include <exception>

namespace npugraph::bridge {

UnderWay::UnderWay(size_t operands)
    : TensorImpl(c10::DispatchKeySet(c10::DispatchKey::CPU), caffe2::TypeMeta::Make<uint8_t>(), c10::kCPU) {
  memories_.reserve(operands);
}

UnderWay::~UnderWay() {
  landings_.clear();
  try {
    wait();
  } catch (const std::exception&) {  // an object that is dropped has nobody to report to
  }
}

at::Tensor UnderWay::tensor(const DeclaredOperand& declared, const ng_buffer& buffer) {
  BorrowedTensor& memory = memories_.emplace_back(declared.dtype, declared.device);
  const auto rank = static_cast<size_t>(buffer.rank);
  memory.set_shape({buffer.sizes, rank}, {buffer.strides, rank});
  memory.point_to(buffer.data);
  if (buffer.object != nullptr) {
    auto* impl = static_cast<c10::TensorImpl*>(buffer.object);
    kept_.emplace_back(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(impl));
  }
  return memory.alias();
}

void UnderWay::add(c10::intrusive_ptr<c10d::Work> work, const std::vector<at::Tensor>& tensors) {
  kept_.insert(kept_.end(), tensors.begin(), tensors.end());
  if (work) works_.push_back(std::move(work));
}

void UnderWay::wait() {
  std::exception_ptr error;
  for (const auto& work : std::exchange(works_, {})) {
    try {
      work->wait();
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  kept_.clear();
  if (error) std::rethrow_exception(error);
  for (const auto& [data, memory] : std::exchange(landings_, {})) memory.copy_(data);
}

}  // namespace npugraph::bridge
