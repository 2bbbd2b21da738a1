// SPDX-License-Identifier: Apache-2.0
// Random numbers on npu: a generator draws with a CPU generator of its own, so that every random operator gives on npu what it
// gives on cpu under the same seed.
#pragma once

#include <optional>

#include <ATen/core/Generator.h>

namespace npugraph::npu {

// What records, and repeats later, what is done to the states of generators, as a captured graph does. The generators of npu ask
// it in each call; where it answers false, nothing is recorded, and the generator does what it was asked.
class StateRecorder {
 public:
  virtual ~StateRecorder() = default;

  // The state of `generator`, in place of `state`, which it is now; undefined where nothing is recorded.
  virtual at::Tensor read(const at::Generator& generator, const at::Tensor& state) = 0;
  virtual bool set(const at::Generator& generator, const at::Tensor& state) = 0;
  virtual bool seed(const at::Generator& generator, uint64_t seed) = 0;
  // c10::Error where something is recorded: a seed that nobody knows cannot be repeated.
  virtual void check_may_draw_seed(const at::Generator& generator) = 0;
  virtual bool follow(const at::Generator& generator, const at::Generator& other) = 0;
};

// Once in the process, before it has generators.
void set_state_recorder(StateRecorder& recorder);

// Who draws holds mutex_ of the twin, as c10::GeneratorImpl says; what is below takes it.
class NpuGenerator final : public c10::GeneratorImpl {
 public:
  explicit NpuGenerator(c10::DeviceIndex device);

  const at::Generator& twin() const { return twin_; }

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

  at::Generator twin_;
};

// Of the process, one for each device; valid for ever.
const at::Generator& default_generator(c10::DeviceIndex device);

// The CPU generator that draws for `generator`, which is of npu, or for the default generator of `device` where there is none.
at::Generator generator_twin(const std::optional<at::Generator>& generator, c10::DeviceIndex device);

// What draws for the kernel over aliases that the calling thread runs (over_aliases.h); nothing where it runs none.
std::optional<at::Generator> generator_of_kernel();

}  // namespace npugraph::npu
