// SPDX-License-Identifier: Apache-2.0
#include "device/npu/generator.h"

#include <array>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>

#include "device/npu/call_record.h"
#include "device/npu/facts.h"

namespace npugraph::npu {

namespace {

StateRecorder* recorder = nullptr;

at::Tensor tensor_of(const c10::TensorImpl& state) {
  return at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(const_cast<c10::TensorImpl*>(&state)));
}

}  // namespace

void set_state_recorder(StateRecorder& made) { recorder = &made; }

NpuGenerator::NpuGenerator(c10::DeviceIndex device)
    : GeneratorImpl(c10::Device(kNpu, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      cpu_(at::detail::createCPUGenerator()) {}

c10::DeviceType NpuGenerator::device_type() { return kNpu; }

void NpuGenerator::set_offset(uint64_t offset) {
  TORCH_CHECK(offset == 0, "a generator of npu cannot jump to offset ", offset,
              ": it is a Mersenne Twister; set_state() goes back to a saved state");
}

uint64_t NpuGenerator::get_offset() const { return 0; }

at::Generator NpuGenerator::self() const {
  return at::Generator(c10::intrusive_ptr<c10::GeneratorImpl>::reclaim_copy(const_cast<NpuGenerator*>(this)));
}

void NpuGenerator::set_current_seed(uint64_t seed) {
  if (recorder != nullptr && recorder->seed(self(), seed)) return;
  const std::lock_guard lock(cpu_.mutex());
  cpu_.set_current_seed(seed);
}

uint64_t NpuGenerator::current_seed() const {
  const std::lock_guard lock(cpu_.unsafeGetGeneratorImpl()->mutex_);
  return cpu_.current_seed();
}

uint64_t NpuGenerator::seed() {
  if (recorder != nullptr) recorder->check_may_draw_seed(self());
  const std::lock_guard lock(cpu_.mutex());
  return cpu_.seed();
}

void NpuGenerator::set_state(const c10::TensorImpl& state) {
  const at::Tensor given = tensor_of(state);
  if (recorder != nullptr && recorder->set(self(), given)) return;
  const std::lock_guard lock(cpu_.mutex());
  cpu_.set_state(given);
}

c10::intrusive_ptr<c10::TensorImpl> NpuGenerator::get_state() const {
  at::Tensor state;
  {
    const std::lock_guard lock(cpu_.unsafeGetGeneratorImpl()->mutex_);
    state = cpu_.get_state();
  }
  if (recorder != nullptr) {
    if (at::Tensor recorded = recorder->read(self(), state); recorded.defined()) state = std::move(recorded);
  }
  return state.getIntrusivePtr();
}

// From now on both draw from one sequence.
void NpuGenerator::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) {
  auto* npu = dynamic_cast<NpuGenerator*>(other.get());
  TORCH_CHECK(npu != nullptr, "a generator of npu was given the state of one of ", other->device().str());
  if (recorder != nullptr && recorder->follow(self(), at::Generator(other))) return;
  cpu_ = npu->cpu_;
}

c10::intrusive_ptr<c10::GeneratorImpl> NpuGenerator::graphsafe_get_state() const {
  auto out = c10::make_intrusive<NpuGenerator>(device_.index());
  out->cpu_ = cpu_;
  return out;
}

NpuGenerator* NpuGenerator::clone_impl() const {
  auto* out = new NpuGenerator(device_.index());
  const std::lock_guard lock(cpu_.unsafeGetGeneratorImpl()->mutex_);
  out->cpu_ = cpu_.clone();
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

at::Generator cpu_generator_of(const std::optional<at::Generator>& generator, c10::DeviceIndex device) {
  const at::Generator& npu = generator.has_value() && generator->defined() ? *generator : default_generator(device);
  return static_cast<NpuGenerator*>(npu.unsafeGetGeneratorImpl())->cpu();
}

std::optional<at::Generator> generator_of_kernel() {
  const auto device = device_of_aliases();
  return device ? std::make_optional(cpu_generator_of(std::nullopt, *device)) : std::nullopt;
}

}  // namespace npugraph::npu
