// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/attention/given_masks.h"

namespace npugraph::npu_ops {

Tensor first_of_mask(const char* op, const char* name, const Tensor& mask, int64_t index, const c10::SymInt& rows,
                     const c10::SymInt& columns) {
  if (!mask.defined()) return mask;
  check_dims(op, name, mask, 2, 4);
  TORCH_CHECK(mask.sym_size(-2) >= rows && mask.sym_size(-1) >= columns, op, ": ", name, " has shape ",
              mask.sym_sizes(), ", and a sequence has ", rows, " rows and ", columns, " columns");
  const Tensor all = mask.dim() == 2 ? mask.unsqueeze(0).unsqueeze(0) : mask.dim() == 3 ? mask.unsqueeze(1) : mask;
  const Tensor own = index < 0 || all.sym_size(0) == 1 ? all : all.narrow(0, index, 1);
  return own.narrow_symint(-2, 0, rows).narrow_symint(-1, 0, columns).to(at::kBool);
}

}  // namespace npugraph::npu_ops
