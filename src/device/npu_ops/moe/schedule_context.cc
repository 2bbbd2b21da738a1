// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/moe/schedule_context.h"

#include <cstring>
#include <string>

#include "device/npu/facts.h"
#include "device/npu/memory.h"

namespace npugraph::npu_ops {
namespace {

bool is_memory_of_npu(uint64_t address, uint64_t bytes) {
  for (c10::DeviceIndex device = 0; device < npu::facts().devices; ++device) {
    if (npu::DeviceMemory::of(device).holds(address, bytes)) return true;
  }
  return false;
}

}  // namespace

ScheduleContext read_context(const char* op, const Tensor& tensor) {
  const Tensor host = tensor.contiguous();
  TORCH_CHECK(host.nbytes() >= sizeof(ScheduleContext), op, ": schedule_context has ", host.nbytes(),
              " bytes, and must have ", sizeof(ScheduleContext));
  ScheduleContext out;
  std::memcpy(&out, host.const_data_ptr(), sizeof(out));
  return out;
}

Tensor tensor_of(const char* op, const char* name, const ScheduleContext::Memory& memory, at::IntArrayRef sizes,
                 at::ScalarType type) {
  uint64_t bytes = c10::elementSize(type);
  bool is_too_much = false;
  for (const int64_t size : sizes) is_too_much |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes);
  TORCH_CHECK(!is_too_much && memory.bytes >= bytes, op, ": ", name, " of schedule_context has ", memory.bytes,
              " bytes, and ", sizes, " of ", type, " take ",
              is_too_much ? "more than there are addresses for" : std::to_string(bytes));
  TORCH_CHECK(is_memory_of_npu(memory.address, bytes), op, ": ", name,
              " of schedule_context is no memory of npu that is in use");
  return at::from_blob(reinterpret_cast<void*>(memory.address), sizes, at::TensorOptions(type));
}

}  // namespace npugraph::npu_ops
