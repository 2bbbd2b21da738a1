// SPDX-License-Identifier: Apache-2.0
// The operators that graphs contain for npugraph itself.
//
// npugraph_ex::* mark in graphs where streams, events and core limits begin and end. They compute
// nothing: python/npugraph/fx/streams/sections.py reads them, and eager work is done when its call returns anyway. Only
// record_program_event has a task: it records an event that the program around the graph sees.
//
// npugraph::random_state and npugraph::set_random_state save the state of a device's default generator and draw from it
// again (python/npugraph/fx/decompose/random_states.py).
#include <mutex>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

namespace npugraph::bindings {

namespace py = pybind11;

namespace {

// The object that Dynamo keeps under a number for the running call; None if there is none, as in a standalone dump.
py::object object_of_call(int64_t number) {
  const py::dict table =
      py::module_::import("torch._dynamo.graph_bytecode_inputs").attr("index_to_external_object_weakref");
  const py::int_ key(number);
  return table.contains(key) ? table[key]() : py::none();
}

void record_program_event(int64_t event, int64_t stream) {
  const py::gil_scoped_acquire gil;
  try {
    const py::object recorded = object_of_call(event);
    if (py::hasattr(recorded, "record")) recorded.attr("record")(object_of_call(stream));
  } catch (py::error_already_set& error) {
    error.restore();
    throw python_error();
  }
}

void scope_enter(const std::vector<std::string>& keys, const std::vector<std::string>& values, bool /*need_execute*/) {
  TORCH_CHECK_VALUE(keys.size() == values.size(), "npugraph_ex.scope_enter: ", keys.size(), " keys and ", values.size(),
                    " values were given; each key needs one value");
}

void scope_exit() {}

at::Tensor record() { return at::empty({0}); }

void wait(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK_VALUE(!tensors.empty(), "npugraph_ex.wait: got an empty list; give the tensors to wait for");
}

void record_event(const std::string& /*tag*/, bool /*created_inside*/) {}
void wait_event(const std::string& /*tag*/) {}
void record_event_on(const std::string& /*tag*/, const std::string& /*stream*/, bool /*created_inside*/) {}
void wait_names(const std::string& /*first*/, const std::string& /*second*/) {}
void keep(const at::Tensor& /*input*/, const std::string& /*stream*/) {}

}  // namespace

TORCH_LIBRARY(npugraph_ex, library) {
  const auto define = [&](const char* schema, auto function) {
    library.def(schema, torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, function));
  };
  define("scope_enter(str[] keys, str[] values, bool need_execute=False) -> ()", TORCH_FN(scope_enter));
  define("scope_exit() -> ()", TORCH_FN(scope_exit));
  // Marks a point in its stream; its result is passed to wait.
  define("record() -> Tensor", TORCH_FN(record));
  define("wait(Tensor[] tensors) -> ()", TORCH_FN(wait));
  define("tagged_event_record(str tag, bool created_inside=True) -> ()", TORCH_FN(record_event));
  define("tagged_event_wait(str tag) -> ()", TORCH_FN(wait_event));
  define("tagged_event_record_on_stream(str tag, str stream, bool created_inside=True) -> ()",
         TORCH_FN(record_event_on));
  define("tagged_event_wait_on_stream(str tag, str stream) -> ()", TORCH_FN(wait_names));
  // Records an event of the program on a stream, both by the numbers that Dynamo gave them.
  define("record_program_event(int event, int stream) -> ()", TORCH_FN(record_program_event));
  // Later work of `stream` waits for the work that `other` has at this point.
  define("tagged_stream_wait_stream(str stream, str other) -> ()", TORCH_FN(wait_names));
  // The memory of `input` is used by another stream: events say when.
  define("record_tagged_stream(Tensor input, str stream) -> ()", TORCH_FN(keep));
  define("record_tagged_stream_(Tensor input, str stream) -> ()", TORCH_FN(keep));
  define("record_tagged_on_stream(Tensor input, str stream) -> ()", TORCH_FN(keep));
  define("record_tagged_on_stream_(Tensor input, str stream) -> ()", TORCH_FN(keep));
}

}  // namespace npugraph::bindings

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
