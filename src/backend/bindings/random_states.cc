// SPDX-License-Identifier: Apache-2.0
// The operators npugraph::random_state and npugraph::set_random_state, with which graphs save the state of a device's
// default generator and draw from it again (python/npugraph/fx/decompose/random_states.py).
#include <mutex>
#include <string>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace {

at::Generator generator_of(const std::string& device) {
  return at::globalContext().defaultGenerator(c10::Device(device));
}

at::Tensor random_state(const std::string& device) {
  at::Generator generator = generator_of(device);
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(const at::Tensor& state, const std::string& device) {
  at::Generator generator = generator_of(device);
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(npugraph, library) {
  const auto define = [&](const char* schema, auto function) {
    // The tag keeps them in order among operators that draw.
    library.def(schema, torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, function),
                {at::Tag::nondeterministic_seeded});
  };
  define("random_state(str device) -> Tensor", TORCH_FN(random_state));
  define("set_random_state(Tensor state, str device) -> ()", TORCH_FN(set_random_state));
}
