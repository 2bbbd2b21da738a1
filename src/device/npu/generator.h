// SPDX-License-Identifier: Apache-2.0
// Random numbers on npu: a generator draws with a CPU generator of its own, so that every random operator returns on
// npu what it returns on cpu for the same seed.
#pragma once

#include <optional>

#include <ATen/core/Generator.h>

namespace npugraph::npu {

// Records operations on the states of generators to repeat them later, as captured graphs do. The npu generators ask it
// in each call; if it returns false, nothing is recorded, and the generator performs the operation itself.
class StateRecorder {
 public:
  virtual ~StateRecorder() = default;

  // Returns what the caller gets in place of `state`, the present state of
  // `generator`; undefined if nothing is recorded.
  virtual at::Tensor read(const at::Generator& generator, const at::Tensor& state) = 0;
  virtual bool set(const at::Generator& generator, const at::Tensor& state) = 0;
  virtual bool seed(const at::Generator& generator, uint64_t seed) = 0;
  // c10::Error if operations are recorded: an unknown seed cannot be repeated.
  virtual void check_may_draw_seed(const at::Generator& generator) = 0;
  virtual bool follow(const at::Generator& generator, const at::Generator& other) = 0;
};

// To be called once in the process, before it has generators.
void set_state_recorder(StateRecorder& recorder);

// While numbers are drawn, mutex_ of the CPU generator must be held, as c10::GeneratorImpl requires; the members below
// take it.
class NpuGenerator final : public c10::GeneratorImpl {
 public:
  explicit NpuGenerator(c10::DeviceIndex device);

  const at::Generator& cpu() const { return cpu_; }

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

  static c10::DeviceType device_type();

 private:
  NpuGenerator* clone_impl() const override;
  at::Generator self() const;

  at::Generator cpu_;
};

// The default generator of a device, which is never destroyed.
const at::Generator& default_generator(c10::DeviceIndex device);

// The CPU generator that draws for the npu generator `generator`, or,
// without one, for the default generator of `device`.
at::Generator cpu_generator_of(const std::optional<at::Generator>& generator, c10::DeviceIndex device);

// The CPU generator for the kernel over aliases that the calling thread runs (OverAliases); nullopt if it runs none.
std::optional<at::Generator> generator_of_kernel();

}  // namespace npugraph::npu
