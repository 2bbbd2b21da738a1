// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/attention/stored_rows.h"

#include <algorithm>
#include <utility>

#include "device/npu_ops/quantisation/quantisation.h"

namespace npugraph::npu_ops {
namespace {

// [pages, block size, heads, size]
Tensor pages_by_rows(const Tensor& pages, PageForm form, const c10::SymInt& heads) {
  switch (form) {
    case PageForm::kBnBsH: return pages.unflatten_symint(2, {heads, pages.sym_size(2) / heads});
    case PageForm::kBnNBsD: return pages.transpose(1, 2);
    case PageForm::kNz: return pages.permute({0, 3, 1, 2, 4}).flatten(3);
    default: return pages;
  }
}

c10::SymInt block_size_of(const Tensor& cache, PageForm form) {
  if (form == PageForm::kNz) return cache.sym_size(3);
  return cache.sym_size(form == PageForm::kBnNBsD ? 2 : 1);
}

}  // namespace

std::vector<int64_t> from_ends(const char* op, const char* name, const std::vector<int64_t>& ends) {
  const auto behind = std::find_if(ends.rbegin(), ends.rend(), [](int64_t end) { return end != 0; }).base();
  std::vector<int64_t> out;
  int64_t last = 0;
  for (auto end = ends.begin(); end != behind; ++end) {
    TORCH_CHECK(*end >= last, op, ": ", name, " has ", *end, " after ", last,
                ", allowed are ends that do not decrease, and zeros behind them");
    out.push_back(*end - std::exchange(last, *end));
  }
  out.resize(ends.size(), 0);
  return out;
}

Sequences Sequences::packed(std::vector<int64_t> lengths) {
  Sequences out;
  out.packed_ = true;
  int64_t start = 0;
  for (const int64_t length : lengths) {
    out.starts_.push_back(start);
    start += length;
  }
  out.lengths_ = std::move(lengths);
  return out;
}

Sequences Sequences::batched(const char* op, const char* name, const GivenLengths& lengths, const Tensor& tensor,
                             std::optional<int64_t> padding) {
  const int64_t batches = tensor.size(0), rows = tensor.size(2);
  Sequences out;
  out.lengths_ = lengths.value_or(std::vector<int64_t>{rows});
  if (out.lengths_.size() == 1) out.lengths_.resize(batches, out.lengths_[0]);
  TORCH_CHECK(out.count() == batches, op, ": ", name, " has ", out.count(), " lengths, allowed are 1 and ", batches);
  for (const int64_t length : out.lengths_) {
    TORCH_CHECK(length >= 0 && length <= rows, op, ": ", name, " has ", length, ", allowed are 0 to ", rows);
    out.starts_.push_back(padding ? rows - *padding - length : 0);
    TORCH_CHECK(out.starts_.back() >= 0, op, ": ", length, " rows and a padding of ", *padding, " are more than ",
                rows);
  }
  return out;
}

Tensor Sequences::part(const Tensor& tensor, int64_t index) const {
  return tensor.narrow(0, batch(index), 1).narrow(2, starts_[index], lengths_[index]);
}

Tensor Sequences::join(const std::vector<Tensor>& parts, const c10::SymInt& rows) const {
  std::vector<Tensor> padded;
  for (int64_t index = 0; index < count() && !packed_; ++index) {
    const c10::SymInt after = rows - starts_[index] - lengths_[index];
    padded.push_back(at::constant_pad_nd_symint(parts[index], {0, 0, starts_[index], after}));
  }
  if (!packed_) return at::cat(padded, 0);
  const Tensor out = at::cat(parts, 2);
  const c10::SymInt after = rows - out.sym_size(2);
  return after == 0 ? out : at::constant_pad_nd_symint(out, {0, 0, 0, after});
}

Tensor from_pages(const Tensor& cache, PageForm form, const c10::SymInt& heads, const Tensor& table, int64_t length) {
  const c10::SymInt block_size = block_size_of(cache, form);
  TORCH_CHECK(block_size > 0, "a cache of shape ", cache.sym_sizes(), " has pages without rows");
  const c10::SymInt pages = (c10::SymInt(length) + block_size - 1) / block_size;
  const Tensor rows = pages_by_rows(cache.index_select(0, table.narrow_symint(0, 0, pages)), form, heads);
  return rows.flatten(0, 1).narrow(0, 0, length).transpose(0, 1).unsqueeze(0);
}

c10::SymInt head_size_of_pages(const Tensor& cache, PageForm form, const c10::SymInt& heads) {
  switch (form) {
    case PageForm::kBnBsH: return cache.sym_size(2) / heads;
    case PageForm::kNz: return cache.sym_size(2) * cache.sym_size(4);
    default: return cache.sym_size(3);
  }
}

namespace {

constexpr int64_t kLastMode = 7;
constexpr int64_t kInt4InWord = 32 / 4;  // values of an int32

// Expands the scales of a row to its `size` elements; each scale is for equally many elements.
Tensor for_elements(const Tensor& scale, const c10::SymInt& size) {
  const c10::SymInt each = size / scale.sym_size(-1);
  return scale.unsqueeze(-1).expand_symint({-1, -1, -1, -1, each}).flatten(-2);
}

}  // namespace

Tensor scale_of_blocks(const char* op, const char* name, const Tensor& scale, const Tensor& of) {
  const bool fits = scale.dim() == 4 && scale.sym_size(0) == of.sym_size(0) && scale.sym_size(1) == of.sym_size(1) &&
                    scale.sym_size(3) == 1;
  TORCH_CHECK(fits, op, ": the scale of ", name, " has shape ", scale.sym_sizes(), ", allowed is (", of.sym_size(0),
              ", ", of.sym_size(1), ", blocks of rows, 1)");
  const c10::SymInt rows = of.sym_size(2), blocks = scale.sym_size(2);
  c10::SymInt block = 1;
  while ((rows + block - 1) / block > blocks) block = block * 2;
  TORCH_CHECK((rows + block - 1) / block == blocks, op, ": the scale of ", name, " has ", blocks,
              " blocks, which are not those of ", rows, " rows by any power of two");
  return scale.expand_symint({-1, -1, -1, block}).flatten(2).narrow_symint(2, 0, rows).unsqueeze(-1);
}

StoredRows::StoredRows(const char* op, const char* name, const Tensor& tensor, Axes axes, const c10::SymInt& heads)
    : stored_(to_heads(op, name, tensor, axes, heads)), heads_(heads) {
  TORCH_CHECK(stored_.sym_size(1) == heads, op, ": ", name, " has ", stored_.sym_size(1), " heads, and not ", heads);
}

StoredRows::StoredRows(const Tensor& cache, PageForm form, const c10::SymInt& heads)
    : stored_(cache), heads_(heads), form_(form) {}

void StoredRows::set_quantisation(const char* op, const char* name, const Quantisation& given) {
  if (!given.scale.defined()) return;
  TORCH_CHECK(given.mode >= 0 && given.mode <= kLastMode && (in_pages() || (given.mode != 4 && given.mode != 5)), op,
              ": the mode of quantisation of ", name, " is ", given.mode,
              ", allowed are 0 to 3, 6 and 7, and 4 and 5 with block_table");
  TORCH_CHECK(!in_pages() || given.mode < 6, op, ": the mode of quantisation of ", name, " is ", given.mode,
              ", allowed with block_table are 0 to 5");
  const Tensor offset = given.offset.defined() ? shaped(op, name, given.offset, given.mode) : Tensor();
  quantisation_ = {shaped(op, name, wide(given.scale), given.mode), offset, given.mode};
  const bool is_fixed = given.mode == 0 || given.mode == 2, is_paged = given.mode == 4 || given.mode == 5;
  scales_ = is_fixed ? Scales::kFixed : is_paged ? Scales::kInPages : Scales::kByRows;
  scale_form_ = given.mode == 5 ? PageForm::kBnNBsD : PageForm::kBnBsND;
}

// `scale` as [batches, heads, rows, elements], where each size may be 1, or as pages of this.
Tensor StoredRows::shaped(const char* op, const char* name, const Tensor& scale, int64_t mode) const {
  // Scales by row of a cache in pages are given for each sequence, from its first row on.
  const c10::SymInt batches = in_pages() ? c10::SymInt(-1) : stored_.sym_size(0);
  const c10::SymInt rows = in_pages() ? scale.sym_size(-1) : c10::SymInt(-1);
  switch (mode) {
    case 0: return scale.sym_numel() == 1 ? scale.reshape({1, 1, 1, 1}) : scale.reshape_symint({1, heads_, 1, -1});
    case 1: return scale.reshape_symint({batches, 1, rows, 1});
    case 2: return scale.reshape_symint({1, heads_, 1, 1});
    case 3: return scale.reshape_symint({batches, heads_, rows, 1});
    case 4: return scale.unsqueeze(-1).unsqueeze(-1);
    case 5: return scale.unsqueeze(-1);
    case 6: return for_elements(scale.reshape_symint({batches, heads_, stored_.sym_size(2), -1}), head_size());
    default: return scale_of_blocks(op, name, scale, stored_);
  }
}

c10::SymInt StoredRows::head_size() const {
  const c10::SymInt words = form_ ? head_size_of_pages(stored_, *form_, heads_) : stored_.sym_size(3);
  return stored_.scalar_type() == at::kInt ? words * kInt4InWord : words;
}

template <typename Part>
Tensor StoredRows::dequantised(const Tensor& rows, Part&& part) const {
  const Tensor values = with_int4_unpacked(rows);
  if (!quantisation_.scale.defined()) return values;
  const auto of = [&](const Tensor& tensor) {
    return tensor.defined() && scales_ != Scales::kFixed ? part(tensor) : tensor;
  };
  const Tensor scale = of(quantisation_.scale), offset = of(quantisation_.offset);
  return (offset.defined() ? wide(values) + wide(offset) : wide(values)) * scale;
}

Tensor StoredRows::all() const {
  return dequantised(stored_, [](const Tensor& scale) { return scale; });
}

Tensor StoredRows::of_sequence(const Sequences& sequences, int64_t index) const {
  const auto part = [&](const Tensor& tensor) { return sequences.part(tensor, index); };
  return dequantised(part(stored_), part);
}

Tensor StoredRows::of_pages(const Tensor& table, int64_t index, int64_t length) const {
  const c10::SymInt heads = scale_form_ == PageForm::kBnNBsD ? heads_ : c10::SymInt(1);
  return dequantised(from_pages(stored_, *form_, heads_, table, length), [&](const Tensor& scale) {
    if (scales_ == Scales::kByRows) return scale.narrow(0, index, 1).narrow(2, 0, length);
    return from_pages(scale, scale_form_, heads, table, length);
  });
}

Tensor KeyRows::of(const StoredRows& rows, int64_t index) const {
  return rows.in_pages() ? rows.of_pages(table.select(0, index), index, lengths[index])
                         : rows.of_sequence(*sequences, index);
}

}  // namespace npugraph::npu_ops
