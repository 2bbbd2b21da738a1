// SPDX-License-Identifier: Apache-2.0
// The operators that graphs contain for npugraph itself.
//
// npugraph_ex::* mark in graphs where streams, events and core limits begin and end. They compute
// nothing: python/npugraph/fx/streams/sections.py reads them, and eager work is done when its call returns anyway. Only
// record_program_event has a task: it records an event that the program around the graph sees.
//
// air::* are those of torchair, Ascend's package for GE mode: marks that mean the same, an order between two tensors,
// and prints.
//
// npugraph::random_state and npugraph::set_random_state save the state of a device's default generator and draw from it
// again (python/npugraph/fx/decompose/random_states.py).
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
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

constexpr char kNpugraphEx[] = "npugraph_ex", kAir[] = "air";

template <const char* kNamespace>
void scope_enter(const std::vector<std::string>& keys, const std::vector<std::string>& values, bool /*need_execute*/) {
  TORCH_CHECK_VALUE(keys.size() == values.size(), kNamespace, ".scope_enter: ", keys.size(), " keys and ",
                    values.size(), " values were given; each key needs one value");
}

void scope_exit() {}

at::Tensor record() { return at::empty({0}); }

template <const char* kNamespace>
void wait(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK_VALUE(!tensors.empty(), kNamespace, ".wait: got an empty list; give the tensors to wait for");
}

void record_event(const std::string& /*tag*/, bool /*created_inside*/) {}
void wait_event(const std::string& /*tag*/) {}
void record_event_on(const std::string& /*tag*/, const std::string& /*stream*/, bool /*created_inside*/) {}
void wait_names(const std::string& /*first*/, const std::string& /*second*/) {}
void keep(const at::Tensor& /*input*/, const std::string& /*stream*/) {}

template <typename Function>
void define_mark(torch::Library& library, const char* schema, Function function) {
  library.def(schema, torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, function));
}

template <const char* kNamespace>
void define_common_marks(torch::Library& library) {
  define_mark(library, "scope_enter(str[] keys, str[] values, bool need_execute=False) -> ()",
              TORCH_FN(scope_enter<kNamespace>));
  define_mark(library, "scope_exit() -> ()", TORCH_FN(scope_exit));
  // Marks a point in its stream; its result is passed to wait.
  define_mark(library, "record() -> Tensor", TORCH_FN(record));
  define_mark(library, "wait(Tensor[] tensors) -> ()", TORCH_FN(wait<kNamespace>));
  define_mark(library, "tagged_event_record(str tag, bool created_inside=True) -> ()", TORCH_FN(record_event));
  define_mark(library, "tagged_event_wait(str tag) -> ()", TORCH_FN(wait_event));
  // The memory of `input` is used by another stream: events say when.
  define_mark(library, "record_tagged_stream(Tensor input, str stream) -> ()", TORCH_FN(keep));
}

at::Tensor wait_tensor(const at::Tensor& /*self*/, const at::Tensor& /*dependency*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(false,
                              "air.wait_tensor (torchair.scope.npu_wait_tensor) orders operators of a graph in GE "
                              "mode: call it in a function that torch.compile compiles with "
                              "torchair.get_npu_backend()");
}

// The elements of a tensor in nested brackets, numbers as integers or by nine digits: "[[0 1 ... 9] [1 2 ... 3]]". Of
// each dimension `most` at both ends; all for -1.
class TensorText {
 public:
  TensorText(const at::Tensor& tensor, int64_t most)
      : tensor_(tensor.to(at::isFloatingType(tensor.scalar_type()) ? at::kDouble : at::kLong)),
        is_bool_(tensor.scalar_type() == at::kBool),
        most_(most) {
    add(0, 0);
  }

  const std::string& text() const { return text_; }

 private:
  void add(int64_t dim, int64_t offset) {
    if (dim == tensor_.dim()) return add_element(offset);
    const int64_t size = tensor_.size(dim);
    const bool is_cut = most_ >= 0 && size > 2 * most_;
    text_ += '[';
    for (int64_t i = 0; i < size; ++i) {
      if (i > 0) text_ += ' ';
      if (is_cut && i == most_) {
        text_ += "... ";
        i = size - most_;
      }
      add(dim + 1, offset + i * tensor_.stride(dim));
    }
    text_ += ']';
  }

  void add_element(int64_t offset) {
    if (is_bool_) {
      text_ += tensor_.const_data_ptr<int64_t>()[offset] != 0 ? "True" : "False";
    } else if (tensor_.scalar_type() == at::kLong) {
      text_ += std::to_string(tensor_.const_data_ptr<int64_t>()[offset]);
    } else {
      char digits[32];
      std::snprintf(digits, sizeof digits, "%.9g", tensor_.const_data_ptr<double>()[offset]);
      text_ += digits;
    }
  }

  const at::Tensor tensor_;
  const bool is_bool_;
  const int64_t most_;
  std::string text_;
};

// Prints `format` to a stream, with the elements of a tensor in place of each `placeholder`, or, if ".shape" follows,
// with the sizes of the tensor before.
void print(const std::vector<at::Tensor>& tensors, const std::string& format, const std::string& placeholder,
           int64_t summarize, const std::string& stream) {
  constexpr std::string_view kShape = ".shape";
  TORCH_CHECK_VALUE(stream == "stdout" || stream == "stderr", "air.print: the stream is stdout or stderr, got ",
                    stream);
  TORCH_CHECK_VALUE(!placeholder.empty(), "air.print: the placeholder is empty");
  TORCH_CHECK_VALUE(summarize == -1 || summarize > 0,
                    "air.print: summarize is -1, for all elements, or at least 1, got ", summarize);
  std::string line;
  size_t begin = 0, next = 0;
  for (size_t end; (end = format.find(placeholder, begin)) != std::string::npos;) {
    line += format.substr(begin, end - begin);
    begin = end + placeholder.size();
    const bool is_shape = next > 0 && format.compare(begin, kShape.size(), kShape) == 0;
    if (is_shape) {
      begin += kShape.size();
      line += TensorText(at::tensor(tensors[next - 1].sizes()), -1).text();
      continue;
    }
    TORCH_CHECK_VALUE(next < tensors.size(), "air.print: the format has more placeholders ", placeholder, " than the ",
                      tensors.size(), " tensors");
    line += TensorText(tensors[next++], summarize).text();
  }
  line += format.substr(begin) + "\n";
  std::FILE* file = stream == "stdout" ? stdout : stderr;
  std::fwrite(line.data(), 1, line.size(), file);
  std::fflush(file);
}

void print_meta(const std::vector<at::Tensor>&, const std::string&, const std::string&, int64_t, const std::string&) {}

}  // namespace

TORCH_LIBRARY_FRAGMENT(air, library) {
  define_common_marks<kAir>(library);
  define_mark(library, "wait_tensor(Tensor self, Tensor dependency) -> Tensor", TORCH_FN(wait_tensor));
  library.def("print(Tensor[] x, str format, str placeholder, int summarize=3, str stream='stdout') -> ()");
}

TORCH_LIBRARY_IMPL(air, CPU, library) { library.impl("print", TORCH_FN(print)); }
TORCH_LIBRARY_IMPL(air, Meta, library) { library.impl("print", TORCH_FN(print_meta)); }

TORCH_LIBRARY(npugraph_ex, library) {
  const auto define = [&](const char* schema, auto function) { define_mark(library, schema, function); };
  define_common_marks<kNpugraphEx>(library);
  define("tagged_event_record_on_stream(str tag, str stream, bool created_inside=True) -> ()",
         TORCH_FN(record_event_on));
  define("tagged_event_wait_on_stream(str tag, str stream) -> ()", TORCH_FN(wait_names));
  // Records an event of the program on a stream, both by the numbers that Dynamo gave them.
  define("record_program_event(int event, int stream) -> ()", TORCH_FN(record_program_event));
  // Later work of `stream` waits for the work that `other` has at this point.
  define("tagged_stream_wait_stream(str stream, str other) -> ()", TORCH_FN(wait_names));
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
