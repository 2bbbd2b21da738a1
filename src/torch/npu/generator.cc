// SPDX-License-Identifier: Apache-2.0
#include "torch/npu/generator.h"

#include <array>

#include <ATen/CPUGeneratorImpl.h>

#include "torch/npu/facts.h"

namespace npugraph::npu {

NpuGenerator::NpuGenerator(c10::DeviceIndex device)
    : GeneratorImpl(c10::Device(kNpu, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      twin_(at::detail::createCPUGenerator()) {}

c10::DeviceType NpuGenerator::device_type() { return kNpu; }

void NpuGenerator::set_offset(uint64_t offset) {
  TORCH_CHECK(offset == 0, "a generator of npu cannot jump to offset ", offset,
              ": it is a Mersenne Twister; set_state() goes back to a saved state");
}

uint64_t NpuGenerator::get_offset() const { return 0; }

void NpuGenerator::set_state(const c10::TensorImpl& state) { twin_.unsafeGetGeneratorImpl()->set_state(state); }

c10::intrusive_ptr<c10::TensorImpl> NpuGenerator::get_state() const {
  return twin_.unsafeGetGeneratorImpl()->get_state();
}

// From now on both draw from one sequence.
void NpuGenerator::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) {
  auto* npu = dynamic_cast<NpuGenerator*>(other.get());
  TORCH_CHECK(npu != nullptr, "a generator of npu was given the state of one of ", other->device().str());
  twin_ = npu->twin_;
}

c10::intrusive_ptr<c10::GeneratorImpl> NpuGenerator::graphsafe_get_state() const {
  auto out = c10::make_intrusive<NpuGenerator>(device_.index());
  out->twin_ = twin_;
  return out;
}

NpuGenerator* NpuGenerator::clone_impl() const {
  auto* out = new NpuGenerator(device_.index());
  out->twin_ = twin_.clone();
  return out;
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static auto* generators = [] {
    auto* all = new std::array<at::Generator, kMaxDevices>;
    for (int index = 0; index < facts().devices; ++index)
      (*all)[static_cast<size_t>(index)] = at::make_generator<NpuGenerator>(static_cast<c10::DeviceIndex>(index));
    return all;
  }();
  return (*generators)[static_cast<size_t>(checked_device(device))];
}

at::Generator generator_twin(const std::optional<at::Generator>& generator, c10::DeviceIndex device) {
  const at::Generator& npu = generator.has_value() && generator->defined() ? *generator : default_generator(device);
  return static_cast<NpuGenerator*>(npu.unsafeGetGeneratorImpl())->twin();
}

}  // namespace npugraph::npu
