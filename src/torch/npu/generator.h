// SPDX-License-Identifier: Apache-2.0
// Random numbers on npu: a generator draws with a CPU generator of its own, so that every random operator gives on npu what it
// gives on cpu under the same seed.
#pragma once

#include <ATen/core/Generator.h>

namespace npugraph::npu {

// Guarded as c10::GeneratorImpl says: who draws holds mutex_ of the twin.
class NpuGenerator final : public c10::GeneratorImpl {
 public:
  explicit NpuGenerator(c10::DeviceIndex device);

  const at::Generator& twin() const { return twin_; }

  void set_current_seed(uint64_t seed) override { twin_.set_current_seed(seed); }
  uint64_t current_seed() const override { return twin_.current_seed(); }
  uint64_t seed() override { return twin_.seed(); }
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

  static c10::DeviceType device_type();

 private:
  NpuGenerator* clone_impl() const override;

  at::Generator twin_;
};

// Of the process, one for each device; valid for ever.
const at::Generator& default_generator(c10::DeviceIndex device);

// The CPU generator that draws for `generator`, which is of npu, or for the default generator of `device` where there is none.
at::Generator generator_twin(const std::optional<at::Generator>& generator, c10::DeviceIndex device);

}  // namespace npugraph::npu
