// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/stored_rows.h"

#include <utility>

namespace npugraph::npu_ops {

StoredRows::StoredRows(const char* op, const char* name, const Tensor& tensor, Axes axes, const c10::SymInt& heads)
    : stored_(to_heads(op, name, tensor, axes, heads)), heads_(heads) {
  TORCH_CHECK(stored_.sym_size(1) == heads, op, ": ", name, " has ", stored_.sym_size(1), " heads, and not ", heads);
}

StoredRows::StoredRows(const Tensor& cache, PageForm form, const c10::SymInt& heads)
    : stored_(cache), heads_(heads), form_(form) {}

void StoredRows::set_quantisation(const char* op, const char* name, const Quantisation& given) {
  if (!given.scale.defined()) return;
  TORCH_CHECK(given.mode >= 0 && given.mode <= 5 && (given.mode < 4 || in_pages()), op,
              ": the mode of quantisation of ", name, " is ", given.mode,
              ", allowed are 0 to 3, and 4 and 5 with block_table");
  TORCH_CHECK(!in_pages() || (given.mode != 1 && given.mode != 3), op, ": the mode of quantisation of ", name, " is ",
              given.mode, ", allowed with block_table are 0, 2, 4 and 5");
  const auto shaped = [&](const Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    switch (given.mode) {
      case 0: return tensor.sym_numel() == 1 ? tensor.reshape({1, 1, 1, 1}) : tensor.reshape_symint({1, heads_, 1, -1});
      case 1: return tensor.reshape_symint({stored_.sym_size(0), 1, -1, 1});
      case 2: return tensor.reshape_symint({1, heads_, 1, 1});
      case 3: return tensor.reshape_symint({stored_.sym_size(0), heads_, -1, 1});
      case 4: return tensor.unsqueeze(-1).unsqueeze(-1);
      default: return tensor.unsqueeze(-1);
    }
  };
  quantisation_ = {shaped(given.scale), shaped(given.offset), given.mode};
  scales_ = given.mode >= 4 ? Scales::kInPages : given.mode == 1 || given.mode == 3 ? Scales::kByRows : Scales::kFixed;
  scale_form_ = given.mode == 5 ? PageForm::kBnNBsD : PageForm::kBnBsND;
}

c10::SymInt StoredRows::head_size() const {
  return form_ ? head_size_of_pages(stored_, *form_, heads_) : stored_.sym_size(3);
}

Tensor StoredRows::numbers(const Tensor& rows, const Tensor& scale, const Tensor& offset) const {
  const Tensor shifted = offset.defined() ? wide(rows) + wide(offset) : wide(rows);
  return shifted * wide(scale);
}

template <typename Part>
Tensor StoredRows::dequantised(const Tensor& rows, Part&& part) const {
  if (!quantisation_.scale.defined()) return rows;
  const auto of = [&](const Tensor& tensor) {
    return tensor.defined() && scales_ != Scales::kFixed ? part(tensor) : tensor;
  };
  return numbers(rows, of(quantisation_.scale), of(quantisation_.offset));
}

Tensor StoredRows::all() const {
  return dequantised(stored_, [](const Tensor& scale) { return scale; });
}

Tensor StoredRows::of_sequence(const Sequences& sequences, int64_t index) const {
  const auto part = [&](const Tensor& tensor) { return sequences.part(tensor, index); };
  return dequantised(part(stored_), part);
}

Tensor StoredRows::of_pages(const Tensor& table, int64_t length) const {
  const c10::SymInt heads = scale_form_ == PageForm::kBnNBsD ? heads_ : c10::SymInt(1);
  return dequantised(from_pages(stored_, *form_, heads_, table, length),
                     [&](const Tensor& scale) { return from_pages(scale, scale_form_, heads, table, length); });
}

Tensor KeyRows::of(const StoredRows& rows, int64_t index) const {
  return rows.in_pages() ? rows.of_pages(table.select(0, index), lengths[index]) : rows.of_sequence(*sequences, index);
}

}  // namespace npugraph::npu_ops
