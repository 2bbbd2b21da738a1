// SPDX-License-Identifier: Apache-2.0
// The attributes of a task as kernels see them: operands, scalars that are known now or at bind time, or nothing.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "abi/task.h"
#include "base/error.h"
#include "tensor/dtype.h"
#include "tensor/expr.h"

namespace npugraph::kernels {

struct Argument {
  int32_t operand = -1;  // index of the operand of a tensor
  bool is_scalar = false;
  Scalar constant;        // the value; of a symbolic scalar only the kind is valid
  int32_t symbolic = -1;  // index into ng_call::scalars

  bool is_tensor() const { return operand >= 0; }
  bool present() const { return is_tensor() || is_scalar; }
  // Requires is_scalar.
  Scalar value(const ng_call& call) const;
};

class Arguments {
 public:
  explicit Arguments(const ng_definition& task);

  // Argument i; empty if the task has fewer.
  Argument operator[](size_t i) const { return i < arguments_.size() ? arguments_[i] : Argument{}; }
  // UserError when argument i is no tensor, or no scalar.
  Argument tensor(size_t i) const;
  Argument scalar(size_t i) const;
  // The scalar at i, or `otherwise` if there is none.
  Argument scalar_or(size_t i, Scalar otherwise) const;

 private:
  const ng_definition& task_;
  std::vector<Argument> arguments_;
};

// UserError "kernel.x: message".
[[noreturn]] void refuse(const ng_definition& task, const std::string& message);
// UserError unless the task has `inputs` operands that it reads and then `results` that it writes.
void check_operands(const ng_definition& task, size_t inputs, size_t results = 1);
inline DType dtype_of(const ng_operand& operand) { return static_cast<DType>(operand.dtype); }

// A kernel class as an ng_task. The class has a default-constructible State and
//   bool bind(const ng_call& call, State& state) const;    // false: these sizes cannot be bound
//   ng_status run(const State& state, ng_call& call) const;
// neither of which throws; making a State may.

template <typename Kernel>
ng_task make_task(std::unique_ptr<Kernel> kernel) {
  using State = typename Kernel::State;
  return {
      .context = kernel.release(),
      .run =
          [](void* context, void* state, ng_call* call) {
            return static_cast<const Kernel*>(context)->run(*static_cast<const State*>(state), *call);
          },
      .bind =
          [](void* context, const ng_call* call, void** state) {
            if (*state == nullptr) *state = new (std::nothrow) State;
            if (*state == nullptr) return NG_ERROR;
            return static_cast<const Kernel*>(context)->bind(*call, *static_cast<State*>(*state)) ? NG_OK : NG_ERROR;
          },
      .unbind = [](void*, void* state) { delete static_cast<State*>(state); },
      .workspace = nullptr,
      .destroy = [](void* context) { delete static_cast<Kernel*>(context); },
  };
}

// Turns `make`, which throws on errors, into an ng_make.
template <ng_task (*make)(const ng_definition& task)>
ng_status made_by(const ng_definition* definition, ng_task* task, void (*refuse)(void*, const char*), void* reason) {
  try {
    *task = make(*definition);
    return NG_OK;
  } catch (const std::exception& error) {
    refuse(reason, error.what());
    return NG_ERROR;
  }
}

}  // namespace npugraph::kernels
