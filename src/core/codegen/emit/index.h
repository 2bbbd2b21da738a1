// SPDX-License-Identifier: Apache-2.0
// Integer expressions in LLVM IR, computed outside of as many loops as possible.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/emit/vectors.h"
#include "tensor/expr.h"

namespace npugraph::codegen {

// Symbols are bound in nested scopes: the function, then each loop that is open. An expression is computed once, in the
// innermost scope of its symbols, before the next inner loop.
class IndexEmitter {
 public:
  explicit IndexEmitter(Ir& b);

  // `entry` is the terminator of the block that enters the loop; code of the enclosing scope is inserted before it.
  // Null for inline code.
  void open_scope(llvm::Instruction* entry);
  // Opens a scope whose code stays in it: nothing computed in it is hoisted out of it or reused behind it.
  void open_barrier();
  void close_scope();
  int depth() const { return static_cast<int>(scopes_.size()) - 1; }

  // Binds a symbol to an i64 (or i1 for booleans), scalar or with lanes. Rebinding replaces the value.
  void bind(const std::string& name, llvm::Value* value) { symbols_[name] = {value, depth(), false}; }
  // Binds the variable of the vector loop: `first` is its value in lane 0, and it rises by 1 per lane.
  void bind_lanes(const std::string& name, llvm::Value* first, int lanes);

  // The expression as i64 (or i1). It has lanes if it depends on the variable of the vector loop or on values with
  // lanes.
  llvm::Value* emit(const Expr& e);
  // The place of element `e` of a buffer for each lane, without its base.
  Place place(const Expr& e);
  // The value in all lanes. The splat is before the innermost loop if the scope of the value, `depth`, is outside of
  // it.
  llvm::Value* splat_outside(llvm::Value* value, int depth, int lanes);

 private:
  struct Symbol {
    llvm::Value* value;
    int depth;
    bool rises;  // the variable of the vector loop
  };
  struct Computed {
    llvm::Value* value;
    int depth;
  };
  struct Scope {
    llvm::Instruction* entry = nullptr;  // where code of the scope around this one goes
    bool barrier = false;
    std::unordered_map<Expr, llvm::Value*, ExprHash> first;  // for lane 0
    std::unordered_map<Expr, llvm::Value*, ExprHash> lanes;
    std::unordered_map<llvm::Value*, llvm::Value*> splats;
  };

  bool has_lanes(const Expr& e) const;
  const Symbol& symbol(const Expr& e) const;
  Computed compute(const Expr& e, bool lanes);
  Computed compute_symbol(const Expr& e, bool lanes);
  Computed compute_sum(const Expr& e, bool lanes);
  llvm::Value* apply(ExprOp op, llvm::ArrayRef<llvm::Value*> args);
  // The scope that code of `depth` goes to.
  int home_of(int depth) const;
  // Moves the builder to where code of the scope goes.
  void enter(int home);
  std::optional<Expr> step_of(const Expr& e) const;

  Ir& b_;
  std::vector<Scope> scopes_;
  std::unordered_map<std::string, Symbol> symbols_;
  std::string rising_;  // the variable of the vector loop
  int lanes_ = 0;
};

}  // namespace npugraph::codegen
