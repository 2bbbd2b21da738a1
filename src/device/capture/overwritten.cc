// SPDX-License-Identifier: Apache-2.0
#include "device/capture/overwritten.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <ranges>
#include <string_view>
#include <utility>

#include <ATen/Operators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/arange.h>
#include <c10/core/CPUAllocator.h>

#include "device/npu/tensor.h"

namespace npugraph::capture {
namespace {

char* data_of(const c10::Storage& storage) {
  return static_cast<char*>(storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get());
}

// Calls `fn(offset in the storage, offset in the saved bytes, bytes)` for
// each run, clipped to a storage of `limit` bytes.
template <typename F>
void for_each_run(const Runs& runs, int64_t limit, const F& fn) {
  std::vector<int64_t> index(runs.outer.size(), 0);
  int64_t at = runs.first, saved = 0;
  for (bool more = runs.run != 0; more; saved += runs.run) {
    if (const int64_t bytes = std::min(runs.run, limit - at); bytes > 0) fn(at, saved, static_cast<size_t>(bytes));
    more = false;
    for (size_t i = 0; i < index.size() && !more; ++i) {
      const Runs::Outer& outer = runs.outer[i];
      more = ++index[i] < outer.size;
      at += more ? outer.stride : -(outer.size - 1) * outer.stride;
      if (!more) index[i] = 0;
    }
  }
}

Runs whole(const c10::Storage& storage) {
  return {.first = 0, .run = static_cast<int64_t>(storage.nbytes()), .outer = {}};
}

// Whether `outer` surely contains all bytes of `inner`. False in cases that are not seen at once.
bool covers(const Runs& outer, const Runs& inner) {
  if (outer == inner) return true;
  if (!outer.outer.empty() || inner.first < outer.first) return false;
  int64_t end = inner.first + inner.run;
  for (const Runs::Outer& each : inner.outer) end += (each.size - 1) * each.stride;
  return end <= outer.first + outer.run;
}

Places copies_of(const Places& places) {
  Places out;
  for (const std::optional<at::Tensor>& place : places)
    out.push_back(place && place->defined() ? std::make_optional(place->clone()) : std::nullopt);
  return out;
}

}  // namespace

int64_t Runs::bytes() const {
  int64_t all = run;
  for (const Outer& each : outer) all *= each.size;
  return all;
}

Runs runs_of(const at::Tensor& tensor) {
  const auto item = static_cast<int64_t>(tensor.itemsize());
  Runs out{.first = tensor.storage_offset() * item, .run = tensor.numel() == 0 ? 0 : item, .outer = {}};
  std::vector<Runs::Outer> dims;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim)
    if (tensor.size(dim) > 1) dims.push_back({tensor.size(dim), tensor.stride(dim) * item});
  if (out.run == 0) return out;
  std::ranges::stable_sort(dims, {}, &Runs::Outer::stride);
  int64_t extent = item;
  bool overlaps = false;
  for (const Runs::Outer& dim : dims) {
    overlaps |= dim.stride < extent;
    if (out.outer.empty() && dim.stride == out.run)
      out.run *= dim.size;
    else
      out.outer.push_back(dim);
    extent += (dim.size - 1) * dim.stride;
  }
  return overlaps ? Runs{.first = out.first, .run = extent, .outer = {}} : out;
}

bool Overwritten::holds(const c10::Storage& storage, const Runs& runs) const {
  const auto found = held_.find(storage.unsafeGetStorageImpl());
  return found != held_.end() &&
         std::ranges::any_of(found->second, [&](const Runs& held) { return covers(held, runs); });
}

void Overwritten::save(const c10::Storage& storage, const at::Tensor& tensor, bool may_resize) {
  Runs runs = may_resize ? whole(storage) : runs_of(tensor);
  if (runs.run == 0 || holds(storage, runs)) return;
  std::vector<Runs>& held = held_[storage.unsafeGetStorageImpl()];
  int64_t before = 0;
  for (const Runs& each : held) before += each.bytes();
  if (before + runs.bytes() > static_cast<int64_t>(storage.nbytes())) runs = whole(storage);
  held.push_back(runs);
  const auto copy = std::make_shared<at::DataPtr>(c10::GetCPUAllocator()->allocate(static_cast<size_t>(runs.bytes())));
  auto* const bytes = static_cast<char*>(copy->get());
  const auto limit = [](const c10::Storage& of) { return static_cast<int64_t>(of.nbytes()); };
  for_each_run(runs, limit(storage), [&](int64_t at, int64_t saved, size_t size) {
    std::memcpy(bytes + saved, data_of(storage) + at, size);
  });
  // The storage may have been resized by then.
  put_back_.push_back([storage, runs = std::move(runs), copy, bytes, limit] {
    for_each_run(runs, limit(storage), [&](int64_t at, int64_t saved, size_t size) {
      std::memcpy(data_of(storage) + at, bytes + saved, size);
    });
  });
}

void Overwritten::save_rows(const at::Tensor& into, const Places& places) {
  const at::Tensor rows = into.index(places);
  put_back_.push_back([into, rows, own = copies_of(places)]() mutable { into.index_put_(own, rows); });
}

void Overwritten::restore() {
  for (const auto& put_back : std::views::reverse(put_back_)) put_back();
  put_back_.clear();
  held_.clear();
}

namespace {

at::Tensor on_cpu(const at::Tensor& tensor) { return npu::is_npu(tensor) ? npu::cpu_alias(tensor) : tensor; }

// self, dim, index, ...: whole slices.
constexpr std::string_view kBySlice[] = {at::_ops::index_copy_::name, at::_ops::index_add_::name,
                                         at::_ops::index_fill__int_Scalar::name, at::_ops::index_reduce_::name};
// self, dim, index, ...: single elements.
constexpr std::string_view kByElement[] = {at::_ops::scatter__src::name, at::_ops::scatter_add_::name,
                                           at::_ops::scatter_reduce__two::name};
// self, indices, ...
constexpr std::string_view kByIndices[] = {at::_ops::index_put_::name, at::_ops::_index_put_impl_::name};

Places of_slices(int64_t dim, const at::Tensor& index) {
  Places out;
  for (int64_t i = 0; i < dim; ++i) out.push_back(std::nullopt);
  out.push_back(index);
  return out;
}

Places of_elements(int64_t dim, const at::Tensor& index) {
  Places out;
  for (int64_t i = 0; i < index.dim(); ++i) {
    std::vector<int64_t> shape(static_cast<size_t>(index.dim()), 1);
    shape[static_cast<size_t>(i)] = -1;
    out.push_back(i == dim ? index : at::arange(index.size(i), index.options()).view(shape));
  }
  return out;
}

}  // namespace

std::optional<Places> written_places(const c10::OperatorHandle& op, std::span<const c10::IValue> args) {
  const std::string& name = op.schema().name();
  if (std::ranges::count(kByIndices, name) != 0) {
    Places out;
    const at::Tensor self = args[0].toTensor();
    int64_t most = 0;  // the most indices that one dimension has
    for (const c10::IValue& index : args[1].toListRef()) {
      out.push_back(index.isNone() ? std::nullopt : std::make_optional(on_cpu(index.toTensor())));
      if (!index.isNone()) most = std::max(most, index.toTensor().numel());
    }
    return most < self.numel() ? std::make_optional(out) : std::nullopt;
  }
  const bool by_slice = std::ranges::count(kBySlice, name) != 0;
  if (!by_slice && std::ranges::count(kByElement, name) == 0) return std::nullopt;
  const at::Tensor self = args[0].toTensor(), index = on_cpu(args[2].toTensor());
  if (self.dim() == 0 || index.dim() != (by_slice ? 1 : self.dim())) return std::nullopt;
  const int64_t dim = at::maybe_wrap_dim(args[1].toInt(), self.dim());
  const int64_t all = by_slice ? self.size(dim) : self.numel();
  if (index.numel() >= all) return std::nullopt;
  return by_slice ? of_slices(dim, index) : of_elements(dim, index);
}

}  // namespace npugraph::capture
