// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "loop/evaluate.h"
#include "loop/op.h"
#include "loop/text.h"

namespace npugraph::loop {
namespace {

// A check or a division failed.
struct Failure {
  std::string message;
};

// Records which iteration of one loop touched each element.
class AccessLog {
 public:
  void start(const For* loop) {
    loop_ = loop;
    touched_.clear();
  }
  void stop() { loop_ = nullptr; }
  bool active() const { return loop_ != nullptr; }
  const std::string& loop() const { return loop_->var; }
  void set_iteration(int64_t iteration) { iteration_ = iteration; }

  // False if another iteration wrote the element.
  bool read(int32_t buffer, int64_t index) {
    Touch& touch = touched_[key(buffer, index)];
    touch.reader = touch.reader == kNobody || touch.reader == iteration_ ? iteration_ : kSeveral;
    return touch.writer == kNobody || touch.writer == iteration_;
  }
  // False if another iteration read the element, or (if writes must be disjoint) wrote it.
  bool write(int32_t buffer, int64_t index) {
    Touch& touch = touched_[key(buffer, index)];
    const bool read_alone = touch.reader == kNobody || touch.reader == iteration_;
    const bool written_alone = touch.writer == kNobody || touch.writer == iteration_;
    touch.writer = written_alone ? iteration_ : kSeveral;
    return read_alone && (written_alone || loop_->kind == For::Kind::kVector);
  }

 private:
  static constexpr int64_t kNobody = -1;
  static constexpr int64_t kSeveral = -2;
  struct Touch {
    int64_t writer = kNobody;
    int64_t reader = kNobody;
  };
  static uint64_t key(int32_t buffer, int64_t index) {
    return static_cast<uint64_t>(buffer) << 48 ^ static_cast<uint64_t>(index);
  }

  const For* loop_ = nullptr;
  int64_t iteration_ = 0;
  std::unordered_map<uint64_t, Touch> touched_;
};

// A buffer, and which of its elements the kernel may read.
struct Memory {
  char* data = nullptr;
  int64_t elements = 0;
  bool all_readable = false;
  std::vector<bool> readable;
  std::unique_ptr<char[]> owned;  // of shared and local buffers
};

class Interpreter {
 public:
  Interpreter(const Kernel& kernel, std::span<const HostBuffer> buffers, std::span<const Scalar> scalars)
      : kernel_(kernel), values_(kernel.dtypes.size()) {
    NG_CHECK(scalars.size() == kernel.scalars.size(), kernel.name, " takes ", kernel.scalars.size(), " scalars");
    for (size_t i = 0; i < scalars.size(); ++i) {
      NG_CHECK(scalars[i].kind == kernel.scalars[i].kind, "the scalar ", kernel.scalars[i].name, " is of another kind");
      symbols_[kernel.scalars[i].name] = scalars[i];
    }
    place_buffers(buffers);
  }

  void run() { run_block(kernel_.body, nullptr); }

 private:
  struct LoopState {
    const For* loop;
    std::vector<Bits> scans;
    std::vector<Bits> reductions;
    std::vector<int64_t> extremes;
  };

  void place_buffers(std::span<const HostBuffer> buffers);
  void forget_locals();
  void run_block(const std::vector<Stmt>& block, LoopState* state);
  void run_stmt(const Let& let);
  void run_stmt(const Load& load);
  void run_stmt(const Store& store);
  void run_stmt(const Check& check);
  void run_stmt(const For& loop);
  void run_iterations(const For& loop, int64_t extent, LoopState& state);
  void set(ValueId id, Bits bits);
  void update_scans(LoopState& state, ValueId value);
  void update_reductions(LoopState& state, int64_t iteration);
  AccessLog* log_of(const For& loop);
  template <typename Fn>
  void log_access(int32_t buffer, int64_t index, Fn fn);

  Memory& memory_at(int32_t buffer, int64_t index, const char* what);
  int64_t integer(const Expr& e) const;
  Scalar symbol(const std::string& name) const;
  std::string where(int32_t buffer, int64_t index) const {
    return cat(kernel_.buffers[buffer].name, "[", index, "] in ", kernel_.name);
  }

  const Kernel& kernel_;
  std::vector<Bits> values_;
  std::unordered_map<std::string, Scalar> symbols_;
  std::vector<Memory> memory_;
  std::vector<ValueId> defined_;  // by the current statement, for the scans of its loop
  AccessLog parallel_;
  AccessLog vector_;
};

void Interpreter::place_buffers(std::span<const HostBuffer> buffers) {
  size_t arguments = 0;
  for (const Buffer& buffer : kernel_.buffers) {
    Memory memory;
    if (is_scratch(buffer.kind)) {
      memory.elements = integer(buffer.elements);
      NG_CHECK(memory.elements >= 0, "the buffer ", buffer.name, " has ", memory.elements, " elements");
      memory.owned = std::make_unique<char[]>(memory.elements * size_of(buffer.dtype));
      memory.data = memory.owned.get();
    } else {
      NG_CHECK(arguments < buffers.size(), kernel_.name, " takes more than ", arguments, " buffers");
      memory.data = static_cast<char*>(buffers[arguments].data);
      memory.elements = buffers[arguments++].elements;
    }
    memory.all_readable = buffer.kind == Buffer::Kind::kIn || buffer.kind == Buffer::Kind::kInOut;
    memory.readable.resize(memory.all_readable ? 0 : memory.elements);
    memory_.push_back(std::move(memory));
  }
  NG_CHECK(arguments == buffers.size(), kernel_.name, " takes ", arguments, " buffers, got ", buffers.size());
}

void Interpreter::forget_locals() {
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (kernel_.buffers[i].kind == Buffer::Kind::kLocal) memory_[i].readable.assign(memory_[i].elements, false);
  }
}

void Interpreter::run_block(const std::vector<Stmt>& block, LoopState* state) {
  for (const Stmt& stmt : block) {
    defined_.clear();
    std::visit([this](const auto& node) { run_stmt(node); }, stmt.node);
    if (state == nullptr || state->loop->scans.empty()) continue;
    const std::vector<ValueId> defined = defined_;
    for (const ValueId id : defined) update_scans(*state, id);
  }
}

void Interpreter::set(ValueId id, Bits bits) {
  values_[id] = bits;
  defined_.push_back(id);
}

void Interpreter::run_stmt(const Let& let) {
  const DType dtype = kernel_.dtypes[let.id];
  if (let.op == Op::kConstant) return set(let.id, constant_bits(dtype, let.number));
  if (let.op == Op::kIndex) return set(let.id, constant_bits(DType::kI64, Scalar::of_int(integer(let.index))));
  if (let.op == Op::kScalar) {
    return set(let.id, constant_bits(DType::kF64, symbol(let.index.symbol_name())));
  }
  Bits args[3];
  DType types[3];
  for (size_t i = 0; i < let.args.size(); ++i) {
    args[i] = values_[let.args[i]];
    types[i] = kernel_.dtypes[let.args[i]];
  }
  const auto result = evaluate(let.op, {types, let.args.size()}, {args, let.args.size()}, dtype);
  if (!result) throw Failure{"ZeroDivisionError"};
  set(let.id, *result);
}

void Interpreter::run_stmt(const Load& load) {
  if (load.mask != kNone && values_[load.mask] == 0) return set(load.id, values_[load.otherwise]);
  const int64_t index = integer(load.index);
  const Memory& memory = memory_at(load.buffer, index, "a load");
  NG_CHECK(memory.all_readable || memory.readable[index], "a load of ", where(load.buffer, index),
           ", which was not written");
  log_access(load.buffer, index, [&](AccessLog& log) { return log.read(load.buffer, index); });
  set(load.id, load_bits(kernel_.dtypes[load.id], memory.data, index));
}

void Interpreter::run_stmt(const Store& store) {
  if (store.mask != kNone && values_[store.mask] == 0) return;
  const int64_t index = integer(store.index);
  Memory& memory = memory_at(store.buffer, index, "a store");
  if (!memory.all_readable) memory.readable[index] = true;
  log_access(store.buffer, index, [&](AccessLog& log) { return log.write(store.buffer, index); });
  store_bits(kernel_.buffers[store.buffer].dtype, memory.data, index, values_[store.value]);
}

template <typename Fn>
void Interpreter::log_access(int32_t buffer, int64_t index, Fn fn) {
  const Buffer::Kind kind = kernel_.buffers[buffer].kind;
  if (kind == Buffer::Kind::kIn) return;
  for (AccessLog* log : {&parallel_, &vector_}) {
    const bool own = log == &parallel_ && kind == Buffer::Kind::kLocal;
    if (!log->active() || own) continue;
    NG_CHECK(fn(*log), "iterations of loop ", log->loop(), " touch the same ", where(buffer, index));
  }
}

void Interpreter::run_stmt(const Check& check) {
  if (values_[check.condition] != 0) return;
  const bool shows = check.shown != kNone;
  const int64_t shown = shows ? integer_value(kernel_.dtypes[check.shown], values_[check.shown]) : 0;
  throw Failure{fill_in(check.message, shown, [this](const std::string& name) { return symbol(name); })};
}

AccessLog* Interpreter::log_of(const For& loop) {
  if (loop.kind == For::Kind::kParallel) return &parallel_;
  return loop.kind == For::Kind::kVector ? &vector_ : nullptr;
}

void Interpreter::run_stmt(const For& loop) {
  const int64_t extent = integer(loop.extent);
  NG_CHECK(extent >= 0, "the loop ", loop.var, " of ", kernel_.name, " has the extent ", extent);
  LoopState state{&loop, {}, {}, std::vector<int64_t>(loop.reductions.size(), 0)};
  for (const Scan& scan : loop.scans) {
    state.scans.push_back(identity_of(scan.combine, kernel_.dtypes[scan.result]));
  }
  for (const Reduction& reduction : loop.reductions) {
    state.reductions.push_back(identity_of(reduction.combine, kernel_.dtypes[reduction.result]));
  }
  run_iterations(loop, extent, state);
  defined_.clear();
  for (size_t i = 0; i < loop.reductions.size(); ++i) {
    const Reduction& reduction = loop.reductions[i];
    set(reduction.result, state.reductions[i]);
    if (reduction.index_result == kNone) continue;
    set(reduction.index_result, constant_bits(DType::kI64, Scalar::of_int(state.extremes[i])));
  }
}

void Interpreter::run_iterations(const For& loop, int64_t extent, LoopState& state) {
  AccessLog* const log = log_of(loop);
  if (log != nullptr) log->start(&loop);
  Scalar& variable = symbols_[loop.var];
  for (int64_t i = 0; i < extent; ++i) {
    variable = Scalar::of_int(i);
    if (log != nullptr) log->set_iteration(i);
    if (loop.kind == For::Kind::kParallel) forget_locals();
    run_block(loop.body, &state);
    update_reductions(state, i);
  }
  if (log != nullptr) log->stop();
  if (loop.kind == For::Kind::kParallel) forget_locals();
}

void Interpreter::update_scans(LoopState& state, ValueId value) {
  for (size_t i = 0; i < state.loop->scans.size(); ++i) {
    const Scan& scan = state.loop->scans[i];
    if (scan.value != value) continue;
    state.scans[i] = combine_bits(scan.combine, kernel_.dtypes[value], state.scans[i], values_[value]);
    values_[scan.result] = state.scans[i];
    update_scans(state, scan.result);
  }
}

void Interpreter::update_reductions(LoopState& state, int64_t iteration) {
  for (size_t i = 0; i < state.loop->reductions.size(); ++i) {
    const Reduction& reduction = state.loop->reductions[i];
    const DType dtype = kernel_.dtypes[reduction.value];
    Bits& so_far = state.reductions[i];
    const Bits value = values_[reduction.value];
    const bool extreme = reduction.index_result != kNone && is_more_extreme(reduction.combine, dtype, so_far, value);
    if (extreme) state.extremes[i] = iteration;
    so_far = combine_bits(reduction.combine, dtype, so_far, value);
  }
}

Memory& Interpreter::memory_at(int32_t buffer, int64_t index, const char* what) {
  Memory& memory = memory_[buffer];
  NG_CHECK(index >= 0 && index < memory.elements, what, " of ", where(buffer, index), ", which has ", memory.elements,
           " elements");
  return memory;
}

int64_t Interpreter::integer(const Expr& e) const {
  if (e.as_int()) return *e.as_int();
  try {
    return evaluate(e, [this](const std::string& name) { return symbol(name); }).as_int();
  } catch (const UserError& error) {
    NG_CHECK(false, error.what(), " in ", kernel_.name);
  }
}

Scalar Interpreter::symbol(const std::string& name) const {
  if (const auto found = symbols_.find(name); found != symbols_.end()) return found->second;
  const ValueId id = index_value(name);
  NG_CHECK(id != kNone, "no value for ", name);
  return Scalar::of_int(integer_value(kernel_.dtypes[id], values_[id]));
}

}  // namespace

std::string interpret(const Kernel& kernel, std::span<const HostBuffer> buffers, std::span<const Scalar> scalars) {
  const std::string violation = verify(kernel);
  NG_CHECK(violation.empty(), violation, " in\n", print(kernel));
  try {
    Interpreter(kernel, buffers, scalars).run();
  } catch (const Failure& failure) {
    return failure.message;
  }
  return "";
}

}  // namespace npugraph::loop
