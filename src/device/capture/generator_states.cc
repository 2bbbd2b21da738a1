// SPDX-License-Identifier: Apache-2.0
#include "device/capture/generator_states.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <ranges>
#include <unordered_map>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include "backend/bridge/dispatch.h"
#include "device/capture/capture.h"
#include "device/capture/registry.h"
#include "device/npu/call_record.h"
#include "device/npu/facts.h"
#include "device/npu/generator.h"
#include "device/npu/tensor.h"

namespace npugraph::capture {

namespace {

// Operators that captured graphs run at replays.

at::Tensor keep_state(const std::optional<at::Generator>& generator) {
  at::Tensor state = generator->get_state();
  npu::move_to_npu(*state.unsafeGetTensorImpl(), generator->device().index());
  return state;
}

void set_state(std::optional<at::Generator> generator, const at::Tensor& state) {
  generator->set_state(npu::is_npu(state) ? npu::cpu_alias(state) : state);
}

void follow(std::optional<at::Generator> generator, const std::optional<at::Generator>& other) {
  generator->graphsafe_set_state(*other);
}

TORCH_LIBRARY_FRAGMENT(npugraph, library) {
  const auto any = [](auto* kernel) { return torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, kernel); };
  library.def("keep_generator_state(Generator? generator) -> Tensor", any(&keep_state));
  library.def("set_generator_state(Generator? generator, Tensor state) -> ()", any(&set_state));
  library.def("follow_generator(Generator? generator, Generator? other) -> ()", any(&follow));
}

// The generator that draws for `generator`. Its mutex is held while numbers are drawn.
at::Generator drawing(const at::Generator& generator) {
  return generator.device().type() == npu::kNpu ? npu::cpu_generator_of(generator, generator.device().index())
                                                : generator;
}

at::Tensor state_of(at::Generator drawing) {
  const std::lock_guard lock(drawing.mutex());
  return drawing.get_state();
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// States that were read in captures and are still alive, by their addresses: the graph of the backward pass sets states
// that the graph of the forward pass has read.
struct LiveReads {
  struct Read {
    at::Tensor bytes, kept;
  };
  std::mutex mutex;
  std::unordered_map<const void*, Read> at;
};

LiveReads& live_reads() {
  static auto* all = new LiveReads;
  return *all;
}

std::shared_ptr<Capture> capture_on(c10::Device device) {
  if (!is_watching() || is_inside()) return nullptr;
  return capture_of(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

template <typename... Arguments>
torch::jit::Stack launch(Capture& capture, const char* name, const at::Generator& generator, Arguments... arguments) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  torch::jit::Stack stack{generator, std::move(arguments)...};
  const c10::Device device = generator.device();
  capture.launch(op, stack, c10::impl::VirtualGuardImpl(device.type()).getStream(device), [&] { op.callBoxed(stack); });
  return stack;
}

uint64_t seed_in(const at::Tensor& state) {
  at::Generator reader = at::detail::createCPUGenerator();
  reader.set_state(state);
  return reader.current_seed();
}

void check_seed(const at::Generator& generator, const char* what, uint64_t seed) {
  const uint64_t own = generator.current_seed();
  TORCH_CHECK(seed == own, what, ": a graph is being captured, whose replays go on from where the generator of ",
              generator.device(), " is then; inside of the capture only its own seed ", own, " can be set, and ", seed,
              " was given. Seed it before the capture, or before a replay");
}

class GraphStateRecorder final : public npu::StateRecorder {
 public:
  at::Tensor read(const at::Generator& generator, const at::Tensor& state) override {
    const auto capture = capture_on(generator.device());
    if (!capture) return {};
    const bridge::BelowAutograd below;
    const auto stack = launch(*capture, "npugraph::keep_generator_state", generator);
    return capture->generators().add_read(state, stack.back().toTensor());
  }

  bool set(const at::Generator& generator, const at::Tensor& state) override {
    const auto capture = capture_on(generator.device());
    if (!capture) return false;
    at::detail::check_rng_state(*state.unsafeGetTensorImpl());
    const bridge::BelowAutograd below;
    at::Tensor source = capture->generators().find_read(state);
    if (!source.defined()) {  // not read in a capture: every replay sets its present value
      check_seed(generator, "set_state", seed_in(state));
      source = state;
    }
    launch(*capture, "npugraph::set_generator_state", generator, std::move(source));
    return true;
  }

  bool seed(const at::Generator& generator, uint64_t seed) override {
    const auto capture = capture_on(generator.device());
    if (!capture) return false;
    const bridge::BelowAutograd below;
    check_seed(generator, "manual_seed", seed);
    TORCH_CHECK(capture->purpose() == Purpose::kGraph, "manual_seed cannot be part of the update of a task group");
    launch(*capture, "npugraph::set_generator_state", generator, capture->generators().start_of(generator));
    return true;
  }

  void check_may_draw_seed(const at::Generator& generator) override {
    TORCH_CHECK(!capture_on(generator.device()),
                "seed: a graph is being captured, and a seed that cannot be foretold is none that replays could set "
                "again. Seed the generator before the capture, or before a replay");
  }

  bool follow(const at::Generator& generator, const at::Generator& other) override {
    const auto capture = capture_on(generator.device());
    if (!capture) return false;
    const bridge::BelowAutograd below;
    launch(*capture, "npugraph::follow_generator", generator, other);
    return true;
  }
};

}  // namespace

void StartState::read() const {
  const Inside inside;
  const bridge::BelowAutograd below;
  npu::cpu_alias(state).copy_(generator.get_state());
}

void GeneratorStates::save(const at::Generator& generator) {
  const at::Generator own = drawing(generator);
  const std::lock_guard lock(mutex_);
  if (std::ranges::any_of(saved_, [&](const auto& saved) { return saved.first == own; })) return;
  saved_.emplace_back(own, state_of(own));
}

void GeneratorStates::undo() {
  const std::lock_guard lock(mutex_);
  for (auto& [generator, state] : saved_) {
    const std::lock_guard draws(generator.mutex());
    generator.set_state(state);
  }
  saved_.clear();
  reads_.clear();
}

at::Tensor GeneratorStates::add_read(const at::Tensor& bytes, at::Tensor kept) {
  const at::Tensor own = bytes.clone();
  {
    const std::lock_guard lock(mutex_);
    reads_.push_back({own, kept});
  }
  const void* address = bytes.const_data_ptr();
  {
    const std::lock_guard lock(live_reads().mutex);
    live_reads().at.insert_or_assign(address, LiveReads::Read{own, std::move(kept)});
  }
  const auto forget = [bytes, address](void*) {
    LiveReads::Read gone;  // destroyed after the lock is released
    const std::lock_guard lock(live_reads().mutex);
    gone = std::move(live_reads().at.extract(address).mapped());
  };
  return at::from_blob(bytes.mutable_data_ptr(), bytes.sizes(), forget, bytes.options());
}

at::Tensor GeneratorStates::find_read(const at::Tensor& bytes) const {
  {
    const std::lock_guard lock(live_reads().mutex);
    const auto found = live_reads().at.find(bytes.const_data_ptr());
    if (found != live_reads().at.end() && same_bytes(found->second.bytes, bytes)) return found->second.kept;
  }
  const std::lock_guard lock(mutex_);
  for (const Read& read : std::views::reverse(reads_))
    if (same_bytes(read.bytes, bytes)) return read.kept;
  return {};
}

at::Tensor GeneratorStates::start_of(const at::Generator& generator) {
  save(generator);
  const at::Generator own = drawing(generator);
  const std::lock_guard lock(mutex_);
  for (const StartState& start : starts_)
    if (drawing(start.generator) == own) return start.state;
  const auto saved = std::ranges::find_if(saved_, [&](const auto& one) { return one.first == own; });
  at::Tensor state = saved->second.clone();
  npu::move_to_npu(*state.unsafeGetTensorImpl(), generator.device().index());
  starts_.push_back({generator, state});
  return state;
}

std::vector<StartState> GeneratorStates::take_starts() {
  const std::lock_guard lock(mutex_);
  return std::exchange(starts_, {});
}

void record_generator_states() {
  static auto* recorder = new GraphStateRecorder;
  npu::set_state_recorder(*recorder);
  npu::set_is_capturing([](c10::DeviceIndex index) { return capture_on(c10::Device(npu::kNpu, index)) != nullptr; });
}

}  // namespace npugraph::capture
