// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/moe/schedule_context.h"

#include <algorithm>
#include <cstring>

#include "torch/npu/facts.h"
#include "torch/npu/memory.h"

namespace npugraph::npu_ops {
namespace {

bool is_memory_of_npu(uint64_t address, uint64_t bytes) {
  for (c10::DeviceIndex device = 0; device < npu::facts().devices; ++device) {
    const auto pieces = npu::DeviceMemory::of(device).pieces();
    const auto holds = [&](const npu::DeviceMemory::Piece& piece) {
      const auto size = static_cast<uint64_t>(piece.bytes);
      return piece.address <= address && bytes <= size && address - piece.address <= size - bytes;
    };
    if (std::any_of(pieces.begin(), pieces.end(), holds)) return true;
  }
  return false;
}

}  // namespace

ScheduleContext read_context(const char* op, const Tensor& tensor) {
  const Tensor host = tensor.to(at::kCPU).contiguous();
  TORCH_CHECK(host.nbytes() >= sizeof(ScheduleContext), op, ": schedule_context has ", host.nbytes(),
              " bytes, and must have ", sizeof(ScheduleContext));
  ScheduleContext out;
  std::memcpy(&out, host.const_data_ptr(), sizeof(out));
  return out;
}

Tensor tensor_of(const char* op, const char* name, const ScheduleContext::Memory& memory, at::IntArrayRef sizes,
                 at::ScalarType type) {
  const auto bytes = static_cast<uint64_t>(c10::multiply_integers(sizes)) * c10::elementSize(type);
  TORCH_CHECK(memory.bytes >= bytes, op, ": ", name, " of schedule_context has ", memory.bytes, " bytes, and ", sizes,
              " of ", type, " take ", bytes);
  TORCH_CHECK(is_memory_of_npu(memory.address, bytes), op, ": ", name,
              " of schedule_context is no memory of npu that is in use");
  return at::from_blob(reinterpret_cast<void*>(memory.address), sizes, at::TensorOptions(type));
}

}  // namespace npugraph::npu_ops
