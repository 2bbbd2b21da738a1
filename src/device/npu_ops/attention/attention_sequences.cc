// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/attention/attention_sequences.h"

#include <algorithm>
#include <utility>

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

}  // namespace npugraph::npu_ops
