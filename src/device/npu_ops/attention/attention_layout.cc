// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/attention/attention_layout.h"

#include <array>
#include <utility>

namespace npugraph::npu_ops {
namespace {

constexpr std::array<std::pair<std::string_view, Axes>, 7> kNames{{{"BSH", Axes::kBSH},
                                                                   {"BSND", Axes::kBSND},
                                                                   {"BNSD", Axes::kBNSD},
                                                                   {"SBH", Axes::kSBH},
                                                                   {"TND", Axes::kTND},
                                                                   {"NTD", Axes::kNTD},
                                                                   {"NBSD", Axes::kNBSD}}};

std::optional<Axes> axes_named(std::string_view text) {
  for (const auto& [name, axes] : kNames)
    if (name == text) return axes;
  return std::nullopt;
}

std::string_view name_of_axes(Axes axes) {
  for (const auto& [name, known] : kNames)
    if (known == axes) return name;
  return "";
}

int64_t dims_of(Axes axes) { return static_cast<int64_t>(name_of_axes(axes).size()); }

// [.., H] -> [.., N, D]
Tensor split_heads(const char* op, const char* name, const Tensor& tensor, const c10::SymInt& heads) {
  const c10::SymInt& last = tensor.sym_sizes().back();
  TORCH_CHECK(heads > 0 && last % heads == 0, op, ": the last dimension of ", name, " has size ", last,
              ", which is no multiple of ", heads, " heads");
  return tensor.unflatten_symint(-1, {heads, last / heads});
}

// Contiguous, including the strides of dimensions of size 1.
Tensor dense(const Tensor& tensor) { return tensor.contiguous().flatten().view_symint(tensor.sym_sizes()); }

}  // namespace

Layout layout_of(const char* op, std::string_view text) {
  const size_t bar = text.find('_');
  const auto in = axes_named(text.substr(0, bar));
  const auto out = bar == text.npos ? in : axes_named(text.substr(bar + 1));
  TORCH_CHECK(
      in && out && is_packed(*in) == is_packed(*out), op, ": the layout is \"", text,
      "\", allowed are BSH, SBH, BSND, BNSD, NBSD, TND, NTD, and two of these with _ between them, of which both or "
      "none have T");
  return {*in, *out};
}

Tensor to_heads(const char* op, const char* name, const Tensor& tensor, Axes axes, const c10::SymInt& heads) {
  TORCH_CHECK(tensor.dim() == dims_of(axes), op, ": ", name, " has ", tensor.dim(), " dimensions, and not those of ",
              name_of_axes(axes));
  switch (axes) {
    case Axes::kBSH: return split_heads(op, name, tensor, heads).transpose(1, 2);
    case Axes::kSBH: return split_heads(op, name, tensor, heads).permute({1, 2, 0, 3});
    case Axes::kBSND: return tensor.transpose(1, 2);
    case Axes::kBNSD: return tensor;
    case Axes::kNBSD: return tensor.transpose(0, 1);
    case Axes::kTND: return tensor.transpose(0, 1).unsqueeze(0);
    case Axes::kNTD: return tensor.unsqueeze(0);
  }
  return tensor;
}

int64_t heads_of_rows(const Tensor& tensor, Axes axes, const c10::SymInt& head_size) {
  const bool is_flat = axes == Axes::kBSH || axes == Axes::kSBH;
  if (!is_flat || head_size == 0) return 0;
  return (tensor.sym_size(-1) / head_size).guard_int(__FILE__, __LINE__);
}

Tensor from_heads(const Tensor& tensor, Axes axes) {
  switch (axes) {
    case Axes::kBSH: return dense(tensor.transpose(1, 2).flatten(2));
    case Axes::kSBH: return dense(tensor.permute({2, 0, 1, 3}).flatten(2));
    case Axes::kBSND: return dense(tensor.transpose(1, 2));
    case Axes::kBNSD: return dense(tensor);
    case Axes::kNBSD: return dense(tensor.transpose(0, 1));
    case Axes::kTND: return dense(tensor.squeeze(0).transpose(0, 1));
    case Axes::kNTD: return dense(tensor.squeeze(0));
  }
  return tensor;
}

Tensor statistics_from_heads(const Tensor& tensor, Axes axes) {
  return from_heads(tensor, is_packed(axes) ? Axes::kTND : Axes::kBNSD);
}

Tensor statistics_to_heads(const Tensor& tensor, Axes axes) {
  return is_packed(axes) ? tensor.transpose(0, 1).unsqueeze(0) : tensor;
}

}  // namespace npugraph::npu_ops
