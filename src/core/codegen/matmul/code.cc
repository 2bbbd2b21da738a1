// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul/code.h"

#include "base/error.h"
#include "codegen/jit/code_cache.h"
#include "codegen/jit/make_code.h"
#include "loop/text.h"

namespace npugraph::codegen {

TileFunction* tile_code(const target::Target& target, TileKind kind, const TileShape& shape) {
  const std::string name = cat("matmul tile ", static_cast<int>(kind), " ", shape.vectors, " ", shape.fetched_rows, " ",
                               static_cast<int>(shape.passing));
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    emit_tile(add_function(module, target, "tile", tile_type(module.getContext())), target, kind, shape);
  });
  return code.function<TileFunction>("tile");
}

InterleaveFunction* interleave_code(const target::Target& target, TileKind kind, DType from) {
  const std::string name = cat("matmul interleave ", static_cast<int>(kind), " ", name_of(from));
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    emit_interleave(add_function(module, target, "interleave", interleave_type(module.getContext())), kind, from,
                    tile_shape(target, kind));
  });
  return code.function<InterleaveFunction>("interleave");
}

TransposeFunction* transpose_code(const target::Target& target) {
  const MachineCode& code = stored_code(target, "matmul transpose", [&](llvm::Module& module) {
    emit_transpose(add_function(module, target, "transpose", transpose_type(module.getContext())),
                   tile_shape(target, TileKind::kF32));
  });
  return code.function<TransposeFunction>("transpose");
}

CopyTileRowsFunction* copy_tile_rows_code(const target::Target& target, const TileShape& shape) {
  const MachineCode& code = stored_code(target, cat("matmul copy rows ", shape.rows), [&](llvm::Module& module) {
    emit_copy_tile_rows(add_function(module, target, "copy", function_type(module.getContext(), "piiip")), shape);
  });
  return code.function<CopyTileRowsFunction>("copy");
}

WidenFunction* widen_code(const target::Target& target, DType from, DType to) {
  if (from == to) return nullptr;
  const std::string name = cat("matmul widen ", name_of(from), " ", name_of(to));
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    auto* type = function_type(module.getContext(), "pip");
    const int lanes = target.lanes(to == DType::kI16 ? to : DType::kF32);
    emit_widen(add_function(module, target, "widen", type), from, to, lanes);
  });
  return code.function<WidenFunction>("widen");
}

RowsMatvecFunction* rows_matvec_code(const target::Target& target, MatvecKind kind, int vectors) {
  const std::string name = cat("matvec rows ", static_cast<int>(kind), " ", vectors);
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    emit_rows_matvec(add_function(module, target, "matvec", matvec_type(module.getContext())), kind, vectors, target);
  });
  return code.function<RowsMatvecFunction>("matvec");
}

ColumnsMatvecFunction* columns_matvec_code(const target::Target& target, MatvecKind kind, int vectors) {
  const std::string name = cat("matvec columns ", static_cast<int>(kind), " ", vectors);
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    emit_columns_matvec(add_function(module, target, "matvec", matvec_type(module.getContext())), kind, vectors,
                        target);
  });
  return code.function<ColumnsMatvecFunction>("matvec");
}

StoreSumsFunction* store_sums_code(const target::Target& target, DType c) {
  const MachineCode& code = stored_code(target, cat("store sums ", name_of(c)), [&](llvm::Module& module) {
    emit_store_sums(add_function(module, target, "store", store_sums_type(module.getContext())), c,
                    target.lanes(DType::kF32));
  });
  return code.function<StoreSumsFunction>("store");
}

std::shared_ptr<const EpilogueCode> epilogue_code(const target::Target& target, const loop::Kernel& epilogue,
                                                  DType sums) {
  static auto* cache = new CodeCache<EpilogueCode>;
  const std::string text = cat("epilogue ", name_of(sums), "\n", loop::print(epilogue));
  const auto emit = [&] {
    IrModule ir = make_ir_module("epilogue", target);
    emit_epilogue(add_function(*ir.module, target, "epilogue", epilogue_type(ir.module->getContext())), epilogue, sums,
                  target);
    return ir;
  };
  return cache->get(target, text, [&] {
    EpilogueCode made{.code = make_code(target, text, emit)};
    made.function = made.code->function<EpilogueFunction>("epilogue");
    return made;
  });
}

}  // namespace npugraph::codegen
