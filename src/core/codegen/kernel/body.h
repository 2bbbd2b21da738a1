// SPDX-License-Identifier: Apache-2.0
// Statements of a kernel in LLVM IR, inside a function that the caller makes, and how often it copies loop bodies.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "codegen/emit/index.h"
#include "codegen/emit/loops.h"
#include "loop/kernel.h"
#include "target/target.h"

namespace npugraph::codegen {

// The number of copies of its body that an iteration of a vector loop runs: the candidates and their costs.

// The facts about a vector loop that the choice depends on.
struct VectorBody {
  int statements = 0;             // that compute or move something
  int lanes = 1;                  // of an iteration
  std::optional<int64_t> extent;  // of the loop, if it is known
};

// In rising order, from 1 on.
std::vector<int> copy_candidates(const VectorBody& body);

// Rough cost in instructions per vector.
double cost_of_copies(const VectorBody& body, int copies, const target::Target& target);

// The cheapest number of copies; the smallest of equally cheap ones.
int choose_copies(const VectorBody& body, const target::Target& target);

// The place of the elements of a buffer: memory, or registers of the caller.
struct BufferAccess {
  llvm::Value* base = nullptr;
  // Used instead of memory: gives the value of a load, in lanes if the statement runs in lanes.
  std::function<llvm::Value*(const loop::Load&)> load;
};

struct BodyHooks {
  // Emits the code for a failed check, which leaves the function or otherwise ends the current block. `shown` is an
  // i64, null if there is none.
  std::function<void(const std::string& message, llvm::Value* shown)> fail;
  // Emits a parallel loop. Without this hook, parallel loops run as serial ones.
  std::function<void(const loop::For&)> parallel;
  // Called where the body of a parallel loop begins, with the value of its variable.
  std::function<void(llvm::Value*)> iteration;
};

// The message of an integer division by zero.
inline constexpr const char* kZeroDivision = "ZeroDivisionError";

class BodyEmitter {
 public:
  // `copies`: of the body in an iteration of a vector loop, if it may have so many, instead of the number that costs
  // least.
  BodyEmitter(Ir& b, const loop::Kernel& kernel, const target::Target& target, BodyHooks hooks,
              std::optional<int> copies = {});

  void bind_buffer(size_t buffer, BufferAccess access) { buffers_[buffer] = std::move(access); }
  // Scalars of the kernel: i64, double or i1. Variables of loops around the statements: i64.
  void bind_symbol(const std::string& name, llvm::Value* value);
  // Values that are defined outside of the statements.
  void bind_value(loop::ValueId id, llvm::Value* value) { define(id, value); }
  llvm::Value* value(loop::ValueId id) const { return values_[static_cast<size_t>(id)].value; }

  llvm::Value* emit_index(const Expr& e) { return index_.emit(e); }
  void emit(const std::vector<loop::Stmt>& statements);
  // Iterations [begin, end) of a loop that is not a vector loop, one by one.
  void emit_iterations(const loop::For& loop, llvm::Value* begin, llvm::Value* end);
  // Iterations [first, first + lanes) of a vector loop without reductions and scans; with a mask, those of lanes in it,
  // of which there is at least one. Computed values are not reused later, so the code may be in any block.
  void emit_lanes(const loop::For& loop, llvm::Value* first, int lanes, llvm::Value* mask);

  // How many lanes a vector loop gets on the target.
  int lanes_for(const loop::For& loop) const;

 private:
  struct Known {
    llvm::Value* value = nullptr;
    int depth = 0;
  };
  // The values that a loop carries from one iteration to the next.
  struct Carried {
    const loop::For* loop;
    int accumulators;  // per reduction, taken in turn
    Values values;     // for each reduction all accumulators, or value and index; then for each scan the last result
  };
  struct VectorPlan {
    int lanes;
    int copies;                        // of the body in an iteration of the main loop
    const loop::Store* streaming;      // the store that aligns the main loop, if any
    bool whole_vectors, whole_copies;  // the extent is a multiple of lanes, of lanes * copies
  };

  void emit_statement(const loop::Let& let);
  void emit_statement(const loop::Load& load);
  void fetch_ahead(const loop::Load& load, const Place& place);
  void emit_statement(const loop::Store& store);
  void emit_statement(const loop::Check& check);
  void emit_statement(const loop::For& loop);
  void emit_unrolled(const loop::For& loop);
  void emit_vector(const loop::For& loop);
  void emit_check(llvm::Value* condition, const std::string& message, llvm::Value* shown, DType shown_type);

  VectorPlan plan_vector(const loop::For& loop) const;
  // Emits iterations [first, first + lanes), or the lanes in the mask.
  void emit_vector_body(const loop::For& loop, int lanes, llvm::Value* first, llvm::Value* mask, int copy,
                        llvm::Instruction* entry, Carried& carried);
  void emit_masked(const loop::For& loop, const VectorPlan& plan, llvm::Value* begin, llvm::Value* end,
                   Carried& carried);
  void emit_ends(const loop::For& loop, const VectorPlan& plan, llvm::Value* begin, llvm::Value* end,
                 llvm::Value* extent);
  llvm::Value* elements_before_alignment(const loop::For& loop, const VectorPlan& plan, llvm::Value* extent);

  Carried start_carried(const loop::For& loop, int accumulators, int lanes);
  void accumulate(Carried& carried, int slot, llvm::Value* iteration);
  void rotate(Carried& carried, int by) const;
  void finish_carried(const Carried& carried, bool across_lanes);
  void emit_scans(loop::ValueId value);

  void define(loop::ValueId id, llvm::Value* value);
  llvm::Value* argument(loop::ValueId id, bool in_lanes);
  llvm::Value* mask_of(loop::ValueId mask, bool in_lanes);
  DType dtype(loop::ValueId id) const { return kernel_.dtypes[static_cast<size_t>(id)]; }

  Ir& b_;
  const loop::Kernel& kernel_;
  const target::Target& target_;
  BodyHooks hooks_;
  const std::optional<int> copies_;
  IndexEmitter index_;
  std::vector<BufferAccess> buffers_;
  std::vector<Known> values_;
  std::unordered_map<std::string, llvm::Value*> scalars_;
  std::unordered_set<std::string> indices_;  // "v<id>" of values that index expressions name
  Carried* scanning_ = nullptr;              // of the innermost loop
  const loop::Store* aligned_ = nullptr;     // the store that may bypass the caches here
  int lanes_ = 0;                            // of the enclosing vector loop; 0 outside of one
  llvm::Value* mask_ = nullptr;              // the lanes that run; null: all
};

}  // namespace npugraph::codegen
