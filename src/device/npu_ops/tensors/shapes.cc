// SPDX-License-Identifier: Apache-2.0
// Operators that move, select and reshape elements. Their results own their memory.
#include <algorithm>
#include <tuple>
#include <vector>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

using c10::SymInt;

Tensor own(const Tensor& view) { return view.clone(at::MemoryFormat::Contiguous); }

// Copies the result of an operator into `out`, which must have its shape.
Tensor& copy_to_out(const char* op, Tensor& out, const Tensor& result) {
  check_same_shape(op, "out", out, "the result", result);
  return out.copy_(result);
}

void check_each_dim(const char* op, const char* name, size_t given, const Tensor& input) {
  TORCH_CHECK(static_cast<int64_t>(given) == input.dim(), op, ": ", name, " has ", given, " elements, input has ",
              input.dim(), " dimensions");
}

Tensor one_hot(const Tensor& input, int64_t axis, int64_t depth, const at::Scalar& on_value,
               const at::Scalar& off_value) {
  check_type("npu_one_hot", "input", input, {at::kInt, at::kLong, at::kByte});
  TORCH_CHECK(depth >= 1, "npu_one_hot: depth is ", depth, ", allowed are 1 and more");
  const Tensor hot = input.unsqueeze(-1) == at::arange(depth, input.options().dtype(at::kLong));  // wider than uint8
  const auto options = input.options().dtype(at::kFloat);
  const Tensor out = at::where(hot, at::scalar_tensor(on_value, options), at::scalar_tensor(off_value, options));
  return out.movedim(-1, axis).contiguous();
}

Tensor pad(const Tensor& input, at::IntArrayRef paddings) {
  TORCH_CHECK(static_cast<int64_t>(paddings.size()) == 2 * input.dim(), "npu_pad: paddings has ", paddings.size(),
              " elements, allowed are two for each of the ", input.dim(), " dimensions of input");
  std::vector<int64_t> from_last;
  for (int64_t dim = input.dim() - 1; dim >= 0; --dim) {
    from_last.push_back(paddings[2 * dim]);
    from_last.push_back(paddings[2 * dim + 1]);
  }
  return at::constant_pad_nd(input, from_last, 0);
}

Tensor slice(const Tensor& input, at::IntArrayRef offsets, at::IntArrayRef size) {
  check_each_dim("npu_slice", "offsets", offsets.size(), input);
  check_each_dim("npu_slice", "size", size.size(), input);
  Tensor out = input;
  for (int64_t dim = 0; dim < input.dim(); ++dim)
    out = out.narrow_symint(dim, offsets[dim], size[dim] < 0 ? input.sym_size(dim) - offsets[dim] : SymInt(size[dim]));
  return own(out);
}

Tensor& slice_out(const Tensor& input, at::IntArrayRef offsets, at::IntArrayRef size, Tensor& out) {
  return copy_to_out("npu_slice", out, slice(input, offsets, size));
}

Tensor transpose(const Tensor& input, at::IntArrayRef perm, bool) { return own(input.permute(perm)); }

Tensor& transpose_out(const Tensor& input, at::IntArrayRef perm, bool, Tensor& out) {
  return copy_to_out("npu_transpose", out, input.permute(perm));
}

Tensor broadcast(const Tensor& input, at::IntArrayRef size) { return own(input.expand(size)); }

Tensor& broadcast_out(const Tensor& input, at::IntArrayRef size, Tensor& out) {
  return copy_to_out("npu_broadcast", out, input.expand(size));
}

Tensor reshape(const Tensor& input, at::IntArrayRef shape, bool) { return own(input.reshape(shape)); }

Tensor& reshape_out(const Tensor& input, at::IntArrayRef shape, bool, Tensor& out) {
  return copy_to_out("npu_reshape", out, input.reshape(shape));
}

Tensor confusion_transpose(const Tensor& input, at::IntArrayRef perm, at::IntArrayRef shape, bool transpose_first) {
  return own(transpose_first ? input.permute(perm).reshape(shape) : input.reshape(shape).permute(perm));
}

Tensor confusion_transpose_backward(const Tensor& grad, at::IntArrayRef perm, at::SymIntArrayRef shape,
                                    bool transpose_first) {
  std::vector<int64_t> back(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) back[at::maybe_wrap_dim(perm[i], perm.size())] = i;
  if (!transpose_first) return own(grad.permute(back).reshape_symint(shape));
  std::vector<SymInt> permuted;
  for (const int64_t dim : perm) permuted.push_back(shape[at::maybe_wrap_dim(dim, shape.size())]);
  return own(grad.reshape_symint(permuted).permute(back));
}

Tensor stride_copy(const Tensor& input, at::IntArrayRef shape, at::IntArrayRef stride, const at::Scalar& offset) {
  return own(input.as_strided(shape, stride, offset.toLong()));
}

Tensor& stride_copy_out(const Tensor& input, at::IntArrayRef shape, at::IntArrayRef stride, const at::Scalar& offset,
                        Tensor& out) {
  return copy_to_out("npu_stride_copy", out, input.as_strided(shape, stride, offset.toLong()));
}

Tensor& view_copy(Tensor& input, const Tensor& other, bool non_blocking) { return input.copy_(other, non_blocking); }

Tensor sort_v2(const Tensor& input, int64_t dim, bool descending) {
  return std::get<0>(at::sort(input, /*stable=*/true, dim, descending));
}

Tensor& sort_v2_out(const Tensor& input, int64_t dim, bool descending, Tensor& out) {
  return copy_to_out("npu_sort_v2", out, sort_v2(input, dim, descending));
}

// `count` groups of 16 channels, as in the format NC1HWC0, from group `first` on; missing channels
// are filled with zeros.
Tensor groups_of_channels(const Tensor& x, int64_t first, int64_t count) {
  constexpr int64_t kGroup = 16;
  const SymInt missing = (SymInt((first + count) * kGroup) - x.sym_size(1)).max(0);
  return longer(x, 1, missing).narrow(1, first * kGroup, count * kGroup);
}

Tensor stride_add(const Tensor& input, const Tensor& other, const at::Scalar& offset1, const at::Scalar& offset2,
                  const at::Scalar& c1_len) {
  check_dims("npu_stride_add", "input", input, 2, 5);
  check_dims("npu_stride_add", "other", other, 2, 5);
  return groups_of_channels(input, offset1.toLong(), c1_len.toLong()) +
         groups_of_channels(other, offset2.toLong(), c1_len.toLong());
}

Tensor& fill_with_ones(Tensor& input) { return input.fill_(1); }

void prefetch(const Tensor&, const OptionalTensor&, int64_t max_size, int64_t offset) {
  TORCH_CHECK(max_size > 0, "npu_prefetch: max_size is ", max_size, ", allowed are numbers above 0");
  TORCH_CHECK(offset >= 0, "npu_prefetch: offset is ", offset, ", allowed are 0 and more");
}

}  // namespace

void define_shapes(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_broadcast(Tensor input, int[] size) -> Tensor",
      .kernel = parts(&broadcast),
      .definition = "Returns a contiguous copy of input.expand(size).",
  });
  library.add({
      .schema = "npu::npu_broadcast.out(Tensor input, int[] size, *, Tensor(a!) out) -> Tensor(a!)",
      .kernel = composite(&broadcast_out),
      .definition = "npu_broadcast that writes its result into out, which has the shape of the result.",
  });
  library.add({
      .schema = "npu::npu_confusion_transpose(Tensor input, int[] perm, int[] shape, bool transpose_first) -> Tensor",
      .kernel = parts(&confusion_transpose),
      .definition = "Permutes and reshapes input: input.permute(perm).reshape(shape) with transpose_first=True, and "
                    "input.reshape(shape).permute(perm) with transpose_first=False. The result is contiguous.",
  });
  library.add({
      .schema = "npu::npu_confusion_transpose_backward(Tensor grad, int[] perm, SymInt[] shape, bool transpose_first) "
                "-> Tensor",
      .kernel = parts(&confusion_transpose_backward),
      .definition = "Gradient of npu_confusion_transpose with respect to input. shape is the shape of input and of the "
                    "result; perm and transpose_first are those of npu_confusion_transpose.",
  });
  library.add({
      .schema = "npu::npu_one_hot(Tensor input, int num_classes=-1, int depth=1, Scalar on_value=1, Scalar "
                "off_value=0) -> Tensor",
      .kernel = parts(&one_hot),
      .definition = "One-hot encoding of input (tf.one_hot): along a new dimension of size depth, the result is "
                    "on_value at the index that the element gives, and off_value elsewhere. An element outside of [0, "
                    "depth) gives off_value everywhere. num_classes is the position of the new dimension in the "
                    "result, not a number of classes. input is int32, int64 or uint8. The result is float32.",
  });
  library.add({
      .schema = "npu::npu_pad(Tensor input, int[] paddings) -> Tensor",
      .kernel = parts(&pad),
      .definition = "Pads input with zeros (tf.pad). paddings has two numbers for each dimension, the zeros before and "
                    "after, from the first dimension on (torch.nn.functional.pad starts from the last).",
  });
  library.add({
      .schema = "npu::npu_prefetch(Tensor input, Tensor? dependency, int max_size, int offset=0) -> ()",
      .kernel = parts(&prefetch),
      .traits = {.has_effect = true},
      .definition = "Does nothing, because the caches of the host fetch by themselves. On an NPU it loads max_size "
                    "bytes of input, from offset on, into the L2 cache. max_size must be above 0, and offset at least "
                    "0.",
  });
  library.add({
      .schema = "npu::npu_reshape(Tensor input, int[] shape, bool can_refresh=False) -> Tensor",
      .kernel = parts(&reshape),
      .definition = "Returns a contiguous copy of input.reshape(shape). can_refresh is ignored.",
  });
  library.add({
      .schema =
          "npu::npu_reshape.out(Tensor input, int[] shape, bool can_refresh=False, *, Tensor(a!) out) -> Tensor(a!)",
      .kernel = composite(&reshape_out),
      .definition = "npu_reshape that writes its result into out, which has the shape of the result.",
  });
  library.add({
      .schema = "npu::npu_slice(Tensor input, int[] offsets, int[] size) -> Tensor",
      .kernel = parts(&slice),
      .definition = "Copies a block of input (tf.slice): size[d] elements from offsets[d] on along each dimension d, "
                    "or all that follow if size[d] is negative. offsets and size have one number for each dimension of "
                    "input. The result is contiguous.",
  });
  library.add({
      .schema = "npu::npu_slice.out(Tensor input, int[] offsets, int[] size, *, Tensor(a!) out) -> Tensor(a!)",
      .kernel = composite(&slice_out),
      .definition = "npu_slice that writes its result into out, which has the shape of the result.",
  });
  library.add({
      .schema = "npu::npu_sort_v2(Tensor input, int dim=-1, bool descending=False) -> Tensor",
      .kernel = parts(&sort_v2),
      .definition = "Returns the values of torch.sort(input, dim, descending), without the indices.",
  });
  library.add({
      .schema =
          "npu::npu_sort_v2.out(Tensor input, int dim=-1, bool descending=False, *, Tensor(a!) out) -> Tensor(a!)",
      .kernel = composite(&sort_v2_out),
      .definition = "npu_sort_v2 that writes its result into out, which has the shape of the result.",
  });
  library.add({
      .schema =
          "npu::npu_stride_add(Tensor input, Tensor other, Scalar offset1, Scalar offset2, Scalar c1_len) -> Tensor",
      .kernel = parts(&stride_add),
      .definition = "Adds ranges of channels of two tensors: input[:, 16 * offset1 : 16 * (offset1 + c1_len)] + "
                    "other[:, 16 * offset2 : 16 * (offset2 + c1_len)]. offset1, offset2 and c1_len count groups of 16 "
                    "channels, as in the memory format NC1HWC0. input and other are [N, C, ...] with 2 to 5 "
                    "dimensions, each with a C of its own, and missing channels count as zeros. The result is [N, 16 * "
                    "c1_len, ...].",
  });
  library.add({
      .schema = "npu::npu_stride_copy(Tensor input, int[] shape, int[] stride, Scalar storage_offset) -> Tensor",
      .kernel = parts(&stride_copy),
      .definition = "Returns a contiguous copy of torch.as_strided(input, shape, stride, storage_offset).",
  });
  library.add({
      .schema = "npu::npu_stride_copy.out(Tensor input, int[] shape, int[] stride, Scalar storage_offset, *, "
                "Tensor(a!) out) -> Tensor(a!)",
      .kernel = composite(&stride_copy_out),
      .definition = "npu_stride_copy that writes its result into out, which has the shape of the result.",
  });
  library.add({
      .schema = "npu::npu_transpose(Tensor input, int[] perm, bool require_contiguous=True) -> Tensor",
      .kernel = parts(&transpose),
      .definition = "Returns a contiguous copy of input.permute(perm). require_contiguous is ignored.",
  });
  library.add({
      .schema = "npu::npu_transpose.out(Tensor input, int[] perm, bool require_contiguous=True, *, Tensor(a!) out) -> "
                "Tensor(a!)",
      .kernel = composite(&transpose_out),
      .definition = "npu_transpose that writes its result into out, which has the shape of the result.",
  });
  library.add({
      .schema = "npu::npu_view_copy(Tensor(a!) input, Tensor other, bool non_blocking) -> Tensor(a!)",
      .kernel = composite(&view_copy),
      .definition = "Copies other into input in place, as torch.Tensor.copy_ does, and returns input. other is "
                    "broadcast to the shape of input and converted to its type.",
  });
  library.add({
      .schema = "npu::one_(Tensor(a!) input) -> Tensor(a!)",
      .kernel = composite(&fill_with_ones),
      .definition = "Fills input with ones in place and returns it.",
  });
}

}  // namespace npugraph::npu_ops
