// SPDX-License-Identifier: Apache-2.0
// Updates of parts of tensors.
#include <vector>

#include "device/npu_ops/families.h"
#include "device/npu_ops/parts/rows.h"
#include "device/npu_ops/quantisation/quantisation.h"

namespace npugraph::npu_ops {
namespace {

Tensor& update_spans(const char* op, Tensor& input, const Tensor& indices, const Tensor& updates, int64_t axis) {
  check_dims(op, "input", input, 2, 8);
  check_dims(op, "updates", updates, input.dim(), input.dim());
  check_dims(op, "indices", indices, 1, 2);
  axis = at::maybe_wrap_dim(axis, input.dim());
  TORCH_CHECK(axis > 0, op, ": axis is 0, along which indices are");
  TORCH_CHECK(indices.dim() == 1 || indices.sym_size(1) == 2, op, ": indices has shape ", indices.sym_sizes(),
              ", allowed are (n) and (n, 2)");
  const c10::SymInt count = updates.sym_size(axis);
  const Tensor row = indices.dim() == 2 ? indices.select(1, 0) : at::arange(updates.sym_size(0), indices.options());
  const Tensor start = indices.dim() == 2 ? indices.select(1, 1) : indices;
  const Tensor rows = row.unsqueeze(-1).expand_symint({row.sym_size(0), count}).flatten();
  put_rows(input.movedim(axis, 1), {rows, spans(start, count)}, updates.movedim(axis, 1).flatten(0, 1));
  return input;
}

Tensor& scatter_update_(Tensor& input, const Tensor& indices, const Tensor& updates, int64_t axis) {
  return update_spans("scatter_update_", input, indices, updates, axis);
}

Tensor scatter_update(const Tensor& input, const Tensor& indices, const Tensor& updates, int64_t axis) {
  Tensor out = input.clone();
  return update_spans("scatter_update", out, indices, updates, axis);
}

Tensor& update_places(const char* op, Tensor& input, const Tensor& indices, const Tensor& updates) {
  check_dims(op, "indices", indices, 1, 8);
  const Tensor places = indices.dim() == 1 ? indices.unsqueeze(0) : indices.flatten(0, -2);
  TORCH_CHECK(places.sym_size(1) <= input.dim(), op, ": the last dimension of indices has size ", places.sym_size(1),
              ", and input ", input.dim(), " dimensions");
  c10::SymDimVector shape{places.sym_size(0)};
  const auto rest = input.sym_sizes().slice(static_cast<size_t>(places.sym_size(1).guard_int(__FILE__, __LINE__)));
  shape.insert(shape.end(), rest.begin(), rest.end());
  put_rows(input, places.unbind(1), updates.reshape_symint(shape));
  return input;
}

Tensor& scatter_nd_update_(Tensor& input, const Tensor& indices, const Tensor& updates) {
  return update_places("npu_scatter_nd_update_", input, indices, updates);
}

Tensor scatter_nd_update(const Tensor& input, const Tensor& indices, const Tensor& updates) {
  Tensor out = input.clone();
  return update_places("npu_scatter_nd_update", out, indices, updates);
}

// `factor`, broadcast along `axis` of `like` if it has one dimension.
Tensor along_axis(const Tensor& factor, const Tensor& like, int64_t axis) {
  if (!factor.defined() || factor.dim() != 1) return factor;
  std::vector<int64_t> shape(static_cast<size_t>(like.dim()), 1);
  shape[static_cast<size_t>(at::maybe_wrap_dim(axis, like.dim()))] = -1;
  return factor.reshape(shape);
}

Tensor& quant_update(const char* op, Tensor& input, const Tensor& indices, const Tensor& updates,
                     const Tensor& quant_scales, const OptionalTensor& quant_zero_points, int64_t axis,
                     int64_t quant_axis, c10::string_view reduce, std::optional<c10::string_view> round_mode) {
  check_type(op, "input", input, {at::kChar});
  check_floating(op, "updates", updates);
  TORCH_CHECK(reduce == "update", op, ": reduce is '", reduce, "', allowed is 'update'");
  TORCH_CHECK(round_mode.value_or("rint") == "rint", op, ": round_mode is '", *round_mode, "', allowed is 'rint'");
  const Tensor offset = along_axis(wide(quant_zero_points), updates, quant_axis);
  const Tensor scale = along_axis(quant_scales, updates, quant_axis);
  const Tensor values = statically_quantised(op, wide(updates), scale, offset, /*divide=*/true, QuantType{});
  return update_spans(op, input, indices, values, axis);
}

Tensor& quant_scatter_(Tensor& input, const Tensor& indices, const Tensor& updates, const Tensor& quant_scales,
                       const OptionalTensor& quant_zero_points, int64_t axis, int64_t quant_axis,
                       c10::string_view reduce, std::optional<int64_t> /*dst_type: that of input*/,
                       std::optional<c10::string_view> round_mode) {
  return quant_update("npu_quant_scatter_", input, indices, updates, quant_scales, quant_zero_points, axis, quant_axis,
                      reduce, round_mode);
}

Tensor quant_scatter(const Tensor& input, const Tensor& indices, const Tensor& updates, const Tensor& quant_scales,
                     const OptionalTensor& quant_zero_points, int64_t axis, int64_t quant_axis, c10::string_view reduce,
                     std::optional<int64_t> /*dst_type: that of input*/, std::optional<c10::string_view> round_mode) {
  Tensor out = input.clone();
  return quant_update("npu_quant_scatter", out, indices, updates, quant_scales, quant_zero_points, axis, quant_axis,
                      reduce, round_mode);
}

Tensor scatter(const Tensor& input, const Tensor& indices, const Tensor& updates, int64_t dim) {
  check_same_shape("npu_scatter", "updates", updates, "indices", indices);
  return at::scatter(input, dim, indices.to(at::kLong).unsqueeze(dim), updates.unsqueeze(dim));
}

// Writes item i of `updates` into inputs[i], from indices[i] on along `axis`, if mask[i] is not 0.
void update_list(const char* op, at::TensorList inputs, const Tensor& indices, const Tensor& updates,
                 const OptionalTensor& mask, c10::string_view reduce, int64_t axis) {
  TORCH_CHECK(reduce == "update", op, ": reduce is '", reduce, "', allowed is 'update'");
  TORCH_CHECK(!inputs.empty() && updates.dim() == inputs[0].dim() + 1, op, ": updates has ", updates.dim(),
              " dimensions, one more than each of input is allowed");
  check_dims(op, "indices", indices, 1, 1);
  const int64_t along = at::maybe_wrap_dim(axis, inputs[0].dim());
  Tensor starts = indices;
  if (mask && mask->defined()) starts = at::where(mask->ne(0), indices, -1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto item = static_cast<int64_t>(i);
    const Tensor rows = updates.select(0, item).movedim(along, 0);
    put_rows(inputs[i].movedim(along, 0), {spans(starts.narrow(0, item, 1), rows.sym_size(0))}, rows);
  }
}

void scatter_list_(at::TensorList input, const Tensor& indices, const Tensor& updates, const OptionalTensor& mask,
                   c10::string_view reduce, int64_t axis) {
  update_list("npu_scatter_list_", input, indices, updates, mask, reduce, axis);
}

std::vector<Tensor> scatter_list(at::TensorList input, const Tensor& indices, const Tensor& updates,
                                 const OptionalTensor& mask, c10::string_view reduce, int64_t axis) {
  std::vector<Tensor> out;
  for (const Tensor& each : input) out.push_back(each.clone());
  update_list("npu_scatter_list", out, indices, updates, mask, reduce, axis);
  return out;
}

}  // namespace

void define_scatter(OperatorLibrary& library) {
  library.add({
      .schema = "npu::scatter_update_(Tensor(a!) input, Tensor indices, Tensor updates, int axis) -> Tensor(a!)",
      .kernel = composite(&scatter_update_),
      .definition = "Writes updates into input in place, for example new keys into a KV cache: updates[i] goes to "
                    "input[i], to the positions indices[i], indices[i] + 1, ... along axis. input has 2 to 8 "
                    "dimensions. updates has the sizes of input except along dimension 0 and axis. indices is [n] for "
                    "the first n items of input, or [n, 2] with pairs (item, position), where n is updates.shape[0]. "
                    "axis is a dimension of input other than 0. Updates with a negative index are skipped. Returns "
                    "input.",
  });
  library.add({
      .schema = "npu::scatter_update(Tensor input, Tensor indices, Tensor updates, int axis) -> Tensor",
      .kernel = composite(&scatter_update),
      .definition = "scatter_update_ that writes into a copy of input and returns the copy.",
  });
  library.add({
      .schema = "npu::npu_scatter_nd_update_(Tensor(a!) input, Tensor indices, Tensor updates) -> Tensor(a!)",
      .kernel = composite(&scatter_nd_update_),
      .definition = "Writes slices into input in place: input[indices[i]] = updates[i], where indices[i] has one index "
                    "for each of the first K dimensions of input (tf.scatter_nd_update). indices is [..., K], and "
                    "updates is [*indices.shape[:-1], *input.shape[K:]]. Slices with a negative index are skipped. If "
                    "several slices have the same indices, any of them may stay. Returns input.",
  });
  library.add({
      .schema = "npu::npu_scatter_nd_update(Tensor input, Tensor indices, Tensor updates) -> Tensor",
      .kernel = composite(&scatter_nd_update),
      .definition = "npu_scatter_nd_update_ that writes into a copy of input and returns the copy.",
  });
  library.add({
      .schema = "npu::npu_quant_scatter_(Tensor(a!) input, Tensor indices, Tensor updates, Tensor quant_scales, "
                "Tensor? quant_zero_points=None, int axis=-2, int quant_axis=-1, str reduce='update', int? "
                "dst_type=None, str? round_mode='rint') -> Tensor(a!)",
      .kernel = composite(&quant_scatter_),
      .definition = "Quantises updates statically and writes them into input as scatter_update_ does: round(updates / "
                    "quant_scales + quant_zero_points), rounded half to even and clamped to int8. input is int8, and "
                    "updates is floating-point. quant_scales and quant_zero_points are 1-D along dimension quant_axis "
                    "of updates (per channel), or broadcast against updates. reduce must be update, and round_mode "
                    "must be rint. dst_type is ignored. Returns input.",
  });
  library.add({
      .schema = "npu::npu_quant_scatter(Tensor input, Tensor indices, Tensor updates, Tensor quant_scales, Tensor? "
                "quant_zero_points=None, int axis=-2, int quant_axis=-1, str reduce='update', int? dst_type=None, str? "
                "round_mode='rint') -> Tensor",
      .kernel = composite(&quant_scatter),
      .definition = "npu_quant_scatter_ that writes into a copy of input and returns the copy.",
  });
  library.add({
      .schema = "npu::npu_scatter(Tensor input, Tensor indices, Tensor updates, int dim) -> Tensor",
      .kernel = parts(&scatter),
      .definition = "torch.scatter of one value for each index of the other dimensions: with dim=1, a copy of input in "
                    "which result[i, indices[i, j], j] = updates[i, j]. indices and updates have the shape of input "
                    "without dim.",
  });
  library.add({
      .schema = "npu::npu_scatter_list_(Tensor(a!)[] input, Tensor indices, Tensor updates, Tensor? mask=None, str "
                "reduce='update', int axis=-2) -> ()",
      .kernel = parts(&scatter_list_),
      .traits = {.writes_rows_of = {"input"}},
      .definition = "Writes updates into a list of tensors in place, for example new keys into the KV cache of each "
                    "sequence: updates[i] goes to input[i], to the positions indices[i], indices[i] + 1, ... along "
                    "axis. updates is [len(input), ...] and has the sizes of input[i] except along axis. indices and "
                    "mask are [len(input)]. Items whose mask is 0 or whose index is negative are skipped. reduce must "
                    "be update.",
  });
  library.add({
      .schema = "npu::npu_scatter_list(Tensor[] input, Tensor indices, Tensor updates, Tensor? mask=None, str "
                "reduce='update', int axis=-2) -> Tensor[]",
      .kernel = composite(&scatter_list),
      .definition = "npu_scatter_list_ that writes into copies of the tensors of input and returns the copies.",
  });
}

}  // namespace npugraph::npu_ops
