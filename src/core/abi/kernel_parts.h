// SPDX-License-Identifier: Apache-2.0
// How functions become kernels of the task ABI. Part of kernel.h.
#pragma once

namespace npugraph::kernel::detail {

template <typename T>
inline constexpr bool is_tensor = std::is_base_of_v<Tensor, T>;
template <typename T>
inline constexpr bool is_result = std::is_same_v<T, Output> || std::is_same_v<T, StridedOutput>;
template <typename T>
inline constexpr bool is_written = std::is_base_of_v<StridedInOut, T>;
template <typename T>
inline constexpr bool is_dense = std::is_same_v<T, Input> || std::is_same_v<T, InOut> || std::is_same_v<T, Output>;

template <typename T>
struct ElementOf {
  using Type = T;
  static constexpr bool kIsOptional = false, kIsList = false;
};
template <typename T>
struct ElementOf<std::optional<T>> {
  using Type = typename ElementOf<T>::Type;
  static constexpr bool kIsOptional = true, kIsList = ElementOf<T>::kIsList;
};
template <typename T>
struct ElementOf<List<T>> {
  using Type = T;
  static constexpr bool kIsOptional = false, kIsList = true;
};

template <typename T>
constexpr const char* word_of_element() {
  if constexpr (is_result<T>)
    return "result";
  else if constexpr (is_written<T>)
    return "Tensor!";
  else if constexpr (is_tensor<T>)
    return "Tensor";
  else if constexpr (std::is_same_v<T, int64_t>)
    return "int";
  else if constexpr (std::is_same_v<T, double>)
    return "float";
  else if constexpr (std::is_same_v<T, bool>)
    return "bool";
  else if constexpr (std::is_same_v<T, std::string_view>)
    return "str";
  else {
    static_assert(std::is_same_v<T, ng_dtype>, "no parameter of a kernel; kernel.h has the list");
    return "ScalarType";
  }
}

// The word of a parameter, as ng_kernel::parameters has it.
template <typename T>
std::string word() {
  using Of = ElementOf<T>;
  static_assert(!Of::kIsList || is_tensor<typename Of::Type> || std::is_same_v<typename Of::Type, int64_t> ||
                    std::is_same_v<typename Of::Type, double>,
                "lists hold tensors, int64_t or double");
  return std::string(word_of_element<typename Of::Type>()) + (Of::kIsList ? "[]" : "") + (Of::kIsOptional ? "?" : "");
}

// Thrown where a definition does not fit the parameters.
struct Misfit : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Goes through the arguments of a definition, then through its results.
class Arguments {
 public:
  explicit Arguments(const ng_definition& definition) : definition_(definition) {
    for (uint32_t i = 0; i < definition.num_attributes; ++i) {
      const ng_attribute& attribute = definition.attributes[i];
      for (uint32_t j = 0; j < attribute.count; ++j) result_ += attribute.values[j].kind == NG_VALUE_OPERAND ? 1 : 0;
    }
  }

  const ng_attribute& next() {
    if (argument_ == definition_.num_attributes)
      throw Misfit("the operator has " + std::to_string(definition_.num_attributes) +
                   " arguments, the kernel takes more");
    return definition_.attributes[argument_++];
  }

  uint32_t next_result() {
    if (result_ == definition_.num_operands) throw Misfit("the kernel writes more results than the operator has");
    return result_++;
  }

  uint32_t operand(const ng_value& value, bool written) const {
    if (value.kind != NG_VALUE_OPERAND) fail("a tensor");
    const auto number = static_cast<uint32_t>(value.number.i);
    if ((definition_.operands[number].access != NG_READ) != written)
      throw Misfit("argument " + std::to_string(argument_ - 1) +
                   (written ? " is not written by the task, but the kernel takes it as InOut"
                            : " is written by the task, but the kernel takes it as Input"));
    return number;
  }

  [[noreturn]] void fail(const char* wanted) const {
    throw Misfit("argument " + std::to_string(argument_ - 1) + " is not " + wanted + ", which the kernel takes");
  }

  void end() const {
    if (argument_ != definition_.num_attributes) throw Misfit("the operator has more arguments than the kernel takes");
    if (result_ != definition_.num_operands) throw Misfit("the operator has more results than the kernel writes");
  }

 private:
  const ng_definition& definition_;
  uint32_t argument_ = 0;
  uint32_t result_ = 0;  // operand of the next result
};

// A number that is constant or comes with each call.
template <typename T>
struct Number {
  T constant{};
  int32_t scalar = -1;
  bool is_float = false;  // of the value that comes with a call

  T get(const ng_call& call) const {
    if (scalar < 0) return constant;
    const ng_scalar& value = call.scalars[scalar];
    return is_float ? static_cast<T>(value.f) : static_cast<T>(value.i);
  }
};

template <typename T>
Number<T> number_of(const ng_value& value, const Arguments& arguments) {
  const bool is_float = value.kind == NG_VALUE_FLOAT;
  const bool is_whole = value.kind == NG_VALUE_INT || value.kind == NG_VALUE_BOOL;
  if (!is_whole && !(is_float && std::is_same_v<T, double>)) arguments.fail(word_of_element<T>());
  return {is_float ? static_cast<T>(value.number.f) : static_cast<T>(value.number.i), value.scalar, is_float};
}

// Operands that have to be dense, found while the parameters are read.
using DenseOperands = std::vector<uint32_t>;

// What a kernel keeps of a parameter of type T: read once from the definition, asked at each run.
template <typename T>
struct Parameter {
  using Number = detail::Number<T>;

  Parameter(Arguments& arguments, DenseOperands& dense) : Parameter(arguments.next(), arguments, dense) {}
  Parameter(const ng_attribute& given, const Arguments& arguments, DenseOperands&) {
    if (given.is_list != 0) arguments.fail(word_of_element<T>());
    number = number_of<T>(given.values[0], arguments);
  }
  T get(const ng_buffer*, const ng_call& call) const { return number.get(call); }

  Number number;
};

template <typename T>
struct TensorParameter {
  TensorParameter(Arguments& arguments, DenseOperands& dense) {
    if constexpr (is_result<T>) {
      operand = arguments.next_result();
      if (is_dense<T>) dense.push_back(operand);
    } else {
      read(arguments.next(), arguments, dense);
    }
  }
  TensorParameter(const ng_attribute& given, const Arguments& arguments, DenseOperands& dense) {
    read(given, arguments, dense);
  }
  T get(const ng_buffer* buffers, const ng_call&) const { return T(&buffers[operand]); }

  void read(const ng_attribute& given, const Arguments& arguments, DenseOperands& dense) {
    if (given.is_list != 0) arguments.fail("a tensor");
    operand = arguments.operand(given.values[0], is_written<T>);
    if (is_dense<T>) dense.push_back(operand);
  }

  uint32_t operand = 0;
};
template <>
struct Parameter<StridedInput> : TensorParameter<StridedInput> {
  using TensorParameter::TensorParameter;
};
template <>
struct Parameter<StridedInOut> : TensorParameter<StridedInOut> {
  using TensorParameter::TensorParameter;
};
template <>
struct Parameter<StridedOutput> : TensorParameter<StridedOutput> {
  using TensorParameter::TensorParameter;
};
template <>
struct Parameter<Input> : TensorParameter<Input> {
  using TensorParameter::TensorParameter;
};
template <>
struct Parameter<InOut> : TensorParameter<InOut> {
  using TensorParameter::TensorParameter;
};
template <>
struct Parameter<Output> : TensorParameter<Output> {
  using TensorParameter::TensorParameter;
};

template <>
struct Parameter<std::string_view> {
  Parameter(Arguments& arguments, DenseOperands& dense) : Parameter(arguments.next(), arguments, dense) {}
  Parameter(const ng_attribute& given, const Arguments& arguments, DenseOperands&) {
    if (given.is_list != 0 || given.values[0].kind != NG_VALUE_TEXT) arguments.fail("a text");
    text = given.values[0].text;
  }
  std::string_view get(const ng_buffer*, const ng_call&) const { return text; }

  std::string text;
};

template <>
struct Parameter<ng_dtype> {
  Parameter(Arguments& arguments, DenseOperands& dense) : Parameter(arguments.next(), arguments, dense) {}
  Parameter(const ng_attribute& given, const Arguments& arguments, DenseOperands&) {
    if (given.is_list != 0 || given.values[0].kind != NG_VALUE_DTYPE) arguments.fail("an element type");
    dtype = static_cast<ng_dtype>(given.values[0].number.i);
  }
  ng_dtype get(const ng_buffer*, const ng_call&) const { return dtype; }

  ng_dtype dtype = NG_F32;
};

template <typename T>
struct Parameter<List<T>> {
  Parameter(Arguments& arguments, DenseOperands& dense) : Parameter(arguments.next(), arguments, dense) {}
  Parameter(const ng_attribute& given, const Arguments& arguments, DenseOperands& dense) {
    if (given.is_list == 0) arguments.fail("a list");
    for (uint32_t i = 0; i < given.count; ++i) {
      if constexpr (is_tensor<T>) {
        operands.push_back(arguments.operand(given.values[i], is_written<T>));
        if (is_dense<T>) dense.push_back(operands.back());
      } else {
        numbers.push_back(number_of<T>(given.values[i], arguments));
        constants.push_back(numbers.back().constant);
        is_constant = is_constant && numbers.back().scalar < 0;
      }
    }
  }

  List<T> get(const ng_buffer* buffers, const ng_call& call) const {
    if constexpr (is_tensor<T>) {
      std::vector<T> tensors;
      for (const uint32_t operand : operands) tensors.push_back(T(&buffers[operand]));
      return List<T>(std::move(tensors));
    } else {
      if (is_constant) return List<T>(&constants);
      std::vector<T> values;
      for (const auto& number : numbers) values.push_back(number.get(call));
      return List<T>(std::move(values));
    }
  }

  std::vector<uint32_t> operands;
  std::vector<std::conditional_t<is_tensor<T>, int, detail::Number<std::conditional_t<is_tensor<T>, int64_t, T>>>>
      numbers;
  std::vector<std::conditional_t<is_tensor<T>, int, T>> constants;
  bool is_constant = true;
};

template <typename T>
struct Parameter<std::optional<T>> {
  Parameter(Arguments& arguments, DenseOperands& dense) {
    const ng_attribute& given = arguments.next();
    if (given.is_list != 0 || given.values[0].kind != NG_VALUE_NONE) value.emplace(given, arguments, dense);
  }
  std::optional<T> get(const ng_buffer* buffers, const ng_call& call) const {
    if (!value) return std::nullopt;
    return value->get(buffers, call);
  }

  std::optional<Parameter<T>> value;
};

inline bool is_row_major(const ng_buffer& buffer) {
  int64_t expected = 1;
  for (int32_t d = buffer.rank; d-- > 0; expected *= buffer.sizes[d]) {
    if (buffer.sizes[d] == 0) return true;
    if (buffer.sizes[d] != 1 && buffer.strides[d] != expected) return false;
  }
  return true;
}

inline int64_t dense_bytes(const ng_buffer& buffer) {
  int64_t bytes = size_of(buffer.dtype);
  for (int32_t d = 0; d < buffer.rank; ++d) bytes *= buffer.sizes[d];
  return bytes;
}

inline std::vector<int64_t> row_major_strides(const ng_buffer& buffer) {
  std::vector<int64_t> strides(static_cast<size_t>(buffer.rank), 1);
  for (int32_t d = buffer.rank - 1; d > 0; --d) strides[d - 1] = strides[d] * buffer.sizes[d];
  return strides;
}

// Copies between dimensions `dim` and up of a strided tensor, from `at` on, and their elements in row-major order.
inline void copy_rows(const ng_buffer& strided, char* at, char* dense, bool to_dense, int32_t dim) {
  const int64_t bytes = size_of(strided.dtype), stride = strided.strides[dim] * bytes;
  int64_t inner = bytes;
  for (int32_t d = dim + 1; d < strided.rank; ++d) inner *= strided.sizes[d];
  for (int64_t i = 0; i < strided.sizes[dim]; ++i, dense += inner, at += stride) {
    if (dim + 1 < strided.rank)
      copy_rows(strided, at, dense, to_dense, dim + 1);
    else
      std::memcpy(to_dense ? dense : at, to_dense ? at : dense, static_cast<size_t>(bytes));
  }
}

// Returns the bytes that it copied. A tensor without dimensions is dense, and never copied.
inline int64_t copy_dense(const ng_buffer& strided, char* dense, bool to_dense) {
  copy_rows(strided, static_cast<char*>(strided.data), dense, to_dense, 0);
  return dense_bytes(strided);
}

inline int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// An operand that is copied, because it is not dense and has to be.
struct Copy {
  uint32_t operand = 0;
  int64_t offset = 0;  // of the copy in the workspace
  std::vector<int64_t> strides;
};

struct State {
  std::vector<Copy> copies;
  std::vector<ng_buffer> buffers;  // of a run that copies
};

template <typename Signature>
struct ParametersOf;
template <typename... T>
struct ParametersOf<void (*)(const Context&, T...)> {
  static constexpr bool kTakesContext = true;
  using Tuple = std::tuple<Parameter<std::decay_t<T>>...>;
  static std::vector<std::string> words() { return {word<std::decay_t<T>>()...}; }
};
template <typename... T>
struct ParametersOf<void (*)(T...)> {
  static constexpr bool kTakesContext = false;
  using Tuple = std::tuple<Parameter<std::decay_t<T>>...>;
  static std::vector<std::string> words() { return {word<std::decay_t<T>>()...}; }
};

// A kernel as a task.
template <auto Function, auto Workspace>
class Task {
  using Of = ParametersOf<decltype(Function)>;
  using Parameters = typename Of::Tuple;
  static constexpr auto kIndices = std::make_index_sequence<std::tuple_size_v<Parameters>>();

 public:
  static ng_status make(const ng_definition* definition, ng_task* task, void (*refuse)(void*, const char*),
                        void* reason) {
    try {
      *task = {new Task(*definition), run, bind, unbind, workspace, destroy};
      return NG_OK;
    } catch (const std::exception& error) {
      refuse(reason, error.what());
      return NG_ERROR;
    }
  }

 private:
  explicit Task(const ng_definition& definition) : Task(definition, Arguments(definition)) {}
  Task(const ng_definition& definition, Arguments arguments) : parameters_(read(arguments, dense_, kIndices)) {
    arguments.end();
    for (uint32_t i = 0; i < definition.num_operands; ++i) accesses_.push_back(definition.operands[i].access);
  }

  // Braces keep the order of the parameters.
  template <size_t... I>
  static Parameters read(Arguments& arguments, DenseOperands& dense, std::index_sequence<I...>) {
    return Parameters{std::tuple_element_t<I, Parameters>(arguments, dense)...};
  }

  template <size_t... I>
  void call(const Context& context, const ng_buffer* buffers, const ng_call& call, std::index_sequence<I...>) const {
    if constexpr (Of::kTakesContext)
      Function(context, std::get<I>(parameters_).get(buffers, call)...);
    else
      Function(std::get<I>(parameters_).get(buffers, call)...);
  }

  template <size_t... I>
  int64_t own_workspace(const ng_call& call, std::index_sequence<I...>) const {
    if constexpr (std::is_same_v<decltype(Workspace), std::nullptr_t>)
      return 0;
    else
      return aligned(Workspace(std::get<I>(parameters_).get(call.buffers, call)...));
  }

  // The operands that are copied for these sizes and strides, and the bytes of the whole workspace.
  int64_t place_copies(const ng_call& call, std::vector<Copy>* copies) const {
    int64_t bytes = own_workspace(call, kIndices);
    for (const uint32_t operand : dense_) {
      const ng_buffer& buffer = call.buffers[operand];
      if (is_row_major(buffer)) continue;
      if (copies != nullptr) copies->push_back({operand, bytes, row_major_strides(buffer)});
      bytes += aligned(dense_bytes(buffer));
    }
    return bytes;
  }

  void run_on_copies(State& state, ng_call& given) const {
    std::copy_n(given.buffers, given.num_buffers, state.buffers.begin());
    int64_t copied = 0;
    for (const Copy& copy : state.copies) {
      ng_buffer& buffer = state.buffers[copy.operand];
      char* dense = static_cast<char*>(given.workspace) + copy.offset;
      if (accesses_[copy.operand] != NG_WRITE) copied += copy_dense(buffer, dense, true);
      buffer.data = dense;
      buffer.strides = copy.strides.data();
    }
    call(Context(given.host, given.workspace), state.buffers.data(), given, kIndices);
    for (const Copy& copy : state.copies) {
      if (accesses_[copy.operand] != NG_READ)
        copied += copy_dense(given.buffers[copy.operand], static_cast<char*>(state.buffers[copy.operand].data), false);
    }
    given.host->count_copied(given.host, copied);
  }

  // Calls `body`, whose exceptions become errors of the task. There is no host while a task is bound.
  template <typename Body>
  static ng_status guarded(const ng_host* host, const Body& body) {
    const char* message = "the kernel threw something that is no std::exception";
    try {
      body();
      return NG_OK;
    } catch (const std::exception& error) {
      if (host != nullptr) host->set_error(host, error.what());
    } catch (...) {
      if (host != nullptr) host->set_error(host, message);
    }
    return NG_ERROR;
  }

  static ng_status run(void* context, void* state, ng_call* given) {
    const Task& task = *static_cast<const Task*>(context);
    State& bound = *static_cast<State*>(state);
    return guarded(given->host, [&] {
      if (bound.copies.empty())
        task.call(Context(given->host, given->workspace), given->buffers, *given, kIndices);
      else
        task.run_on_copies(bound, *given);
    });
  }

  static ng_status bind(void* context, const ng_call* given, void** state) {
    return guarded(given->host, [&] {
      auto bound = std::make_unique<State>();
      static_cast<const Task*>(context)->place_copies(*given, &bound->copies);
      bound->buffers.resize(bound->copies.empty() ? 0 : given->num_buffers);
      unbind(context, *state);
      *state = bound.release();
    });
  }

  static void unbind(void*, void* state) { delete static_cast<State*>(state); }

  static int64_t workspace(void* context, const ng_call* given) {
    int64_t bytes = 0;
    guarded(given->host, [&] { bytes = static_cast<const Task*>(context)->place_copies(*given, nullptr); });
    return bytes;
  }

  static void destroy(void* context) { delete static_cast<Task*>(context); }

  DenseOperands dense_;
  std::vector<int32_t> accesses_;  // of operands
  Parameters parameters_;
};

// The kernels of this library. Hidden, because each library has its own.
class [[gnu::visibility("hidden")]] Table {
 public:
  template <auto Function, auto Workspace = nullptr>
  bool add(const char* schema) {
    auto words = std::make_unique<Words>();
    words->texts = ParametersOf<decltype(Function)>::words();
    for (const std::string& text : words->texts) words->pointers.push_back(text.c_str());
    kernels_.push_back({schema, Task<Function, Workspace>::make, words->pointers.data(),
                        static_cast<uint32_t>(words->pointers.size()), 0});
    words_.push_back(std::move(words));
    library_ = {kernels_.data(), static_cast<uint32_t>(kernels_.size()), NG_TASK_ABI_VERSION};
    return true;
  }

  const ng_library* library() const { return &library_; }

 private:
  struct Words {
    std::vector<std::string> texts;
    std::vector<const char*> pointers;
  };

  std::vector<ng_kernel> kernels_;
  std::vector<std::unique_ptr<Words>> words_;
  ng_library library_{};
};

[[gnu::visibility("hidden")]] inline Table& table() {
  static Table kernels;
  return kernels;
}

}  // namespace npugraph::kernel::detail

// Each file of a library that includes this defines it; the linker keeps one.
extern "C" [[gnu::weak, gnu::visibility("default")]] const ng_library* npugraph_library() {
  return npugraph::kernel::detail::table().library();
}
