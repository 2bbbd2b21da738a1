// SPDX-License-Identifier: Apache-2.0
// Detection, recurrent and scheduling operators that have no plain published definition: sizes and types of their results.
#include <tuple>

#include "torch/npu_ops/checks.h"
#include "torch/npu_ops/families.h"

namespace npugraph::npu_ops {
namespace {

using at::IntArrayRef;
using c10::SymInt;
using Two = std::tuple<Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Tensor like(const Tensor& x) { return at::empty_symint(x.sym_sizes(), x.options()); }

Two iou_backward(const Tensor&, const Tensor& boxes, const Tensor& gtboxes, bool, bool, int64_t) {
  return {like(boxes), like(gtboxes)};
}

Two ciou_backward(const Tensor&, const Tensor& boxes, const Tensor& gtboxes, const OptionalTensor&, bool, bool,
                  int64_t) {
  return {like(boxes), like(gtboxes)};
}

struct Deformable {
  const char* op;
  IntArrayRef kernel, stride, padding,
      dilation;  // stride and dilation of N, C, H, W; padding of top, bottom, left, right
};

void check_deformable(const Deformable& how, const Tensor& input) {
  check_dims(how.op, "input", input, 4, 4);
  TORCH_CHECK(how.stride.size() == 4 && how.padding.size() == 4, how.op, ": stride and padding have ",
              how.stride.size(), " and ", how.padding.size(), " elements, allowed are 4");
}

// Of the result along dimension 2 or 3.
SymInt convolved(const Deformable& how, const Tensor& input, int64_t dim) {
  const int64_t axis = dim - 2;
  const int64_t reach = how.dilation[dim] * (how.kernel[axis] - 1) + 1;
  return (input.sym_size(dim) + (how.padding[2 * axis] + how.padding[2 * axis + 1] - reach)) / how.stride[dim] + 1;
}

Two deformable_conv2d(const Tensor& input, const Tensor& weight, const Tensor&, const OptionalTensor&,
                      IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t,
                      int64_t, bool) {
  const Deformable how = {"npu_deformable_conv2d", kernel, stride, padding, dilation};
  check_deformable(how, input);
  const SymInt height = convolved(how, input, 2), width = convolved(how, input, 3);
  return {input.new_empty_symint({input.sym_size(0), weight.sym_size(0), height, width}),
          input.new_empty_symint({input.sym_size(0), input.sym_size(1), height * kernel[0], width * kernel[1]})};
}

Four deformable_conv2d_backward(const Tensor& input, const Tensor& grad, const Tensor&, const Tensor& weight,
                                const Tensor& offset, IntArrayRef, IntArrayRef, IntArrayRef, IntArrayRef, int64_t,
                                int64_t, bool) {
  return {like(input), like(weight), like(offset), grad.new_empty_symint({grad.sym_size(1)})};
}

Tensor of_input(const Tensor& input, const Tensor&, const Tensor&) { return like(input); }

Tensor rotated(const char* op, const Tensor& boxes, const Tensor& query_boxes, bool trans) {
  check_dims(op, "input", boxes, 3, 3);
  check_dims(op, "query_boxes", query_boxes, 3, 3);
  const int64_t dim = trans ? 2 : 1;
  return boxes.new_empty_symint({boxes.sym_size(0), boxes.sym_size(dim), query_boxes.sym_size(dim)});
}

Tensor rotated_iou(const Tensor& boxes, const Tensor& query_boxes, bool trans, int64_t, bool is_cross, double, double) {
  TORCH_CHECK(is_cross, "npu_rotated_iou: is_cross is False, allowed is True");
  return rotated("npu_rotated_iou", boxes, query_boxes, trans);
}

Tensor rotated_overlaps(const Tensor& boxes, const Tensor& query_boxes, bool trans) {
  return rotated("npu_rotated_overlaps", boxes, query_boxes, trans);
}

Tensor ps_roi_pooling(const Tensor& input, const Tensor& rois, double, int64_t group_size, int64_t output_dim) {
  check_dims("npu_ps_roi_pooling", "rois", rois, 3, 3);
  return input.new_empty_symint({rois.sym_size(0) * rois.sym_size(2), output_dim, group_size, group_size});
}

Tensor ps_roi_pooling_backward(const Tensor& grad, const Tensor& rois, double, int64_t group_size, int64_t output_dim,
                               at::SymIntArrayRef size) {
  TORCH_CHECK(size.size() == 2, "npu_ps_roi_pooling_backward: input_size has ", size.size(),
              " elements, allowed are 2");
  return grad.new_empty_symint({rois.sym_size(0), group_size * group_size * output_dim, size[0], size[1]});
}

Tensor yolo_boxes_encode(const Tensor& input, const Tensor&, const Tensor&, bool) { return like(input); }

Tensor grid_assign_positive(const Tensor& input, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                            const Tensor&, const Tensor&, int64_t, double, double, bool) {
  return like(input);
}

Four batch_nms(const Tensor& input, const Tensor& scores, double, double, int64_t, int64_t most, bool, bool) {
  const SymInt images = input.sym_size(0);
  return {input.new_empty_symint({images, most, 4}), scores.new_empty_symint({images, most}),
          scores.new_empty_symint({images, most}), input.new_empty_symint({images}, at::kInt)};
}

Tensor sub_sample(const Tensor& input, int64_t, double) { return like(input); }

Tensor scheduled(const Tensor& input) { return like(input); }

Tensor ffn_scheduled(const Tensor& input, int64_t, int64_t) { return like(input); }

Two attention_worker_combine(const Tensor&, const Tensor& expert_scales, const Tensor& layer_id, int64_t hidden_size,
                             int64_t token_dtype, int64_t) {
  check_choice("npu_attention_worker_combine", "token_dtype", token_dtype, {0, 1});
  const at::ScalarType type = token_dtype == 0 ? at::kHalf : at::kBFloat16;
  return {expert_scales.new_empty_symint({expert_scales.sym_size(0), hidden_size}, type), like(layer_id)};
}

Tensor stft_backward(const Tensor&, const Tensor& input, int64_t, std::optional<int64_t>, std::optional<int64_t>,
                     const OptionalTensor&, bool, std::optional<bool>, std::optional<bool>) {
  return like(input);
}

}  // namespace

void define_detection_sizes(Definitions& npu) {
  npu.shaped("attention_worker_scheduler", &scheduled);
  npu.shaped("ffn_worker_scheduler", &ffn_scheduled);
  npu.shaped("npu_attention_worker_combine", &attention_worker_combine);
  npu.shaped("npu_batch_nms", &batch_nms);
  npu.shaped("npu_ciou_backward", &ciou_backward);
  npu.shaped("npu_deformable_conv2d", &deformable_conv2d);
  npu.shaped("npu_deformable_conv2dbk", &deformable_conv2d_backward);
  npu.shaped("npu_diou_backward", &iou_backward);
  npu.shaped("npu_giou_backward", &iou_backward);
  npu.shaped("npu_grid_assign_positive", &grid_assign_positive);
  npu.shaped("npu_ps_roi_pooling", &ps_roi_pooling);
  npu.shaped("npu_ps_roi_pooling_backward", &ps_roi_pooling_backward);
  npu.shaped("npu_rotated_box_decode", &of_input);
  npu.shaped("npu_rotated_box_encode", &of_input);
  npu.shaped("npu_rotated_iou", &rotated_iou);
  npu.shaped("npu_rotated_overlaps", &rotated_overlaps);
  npu.shaped("npu_sub_sample", &sub_sample);
  npu.shaped("npu_yolo_boxes_encode", &yolo_boxes_encode);
  npu.shaped("stft_backward", &stft_backward);
}

}  // namespace npugraph::npu_ops
