// SPDX-License-Identifier: Apache-2.0
// Dropout (Srivastava et al., 2014). Masks say which elements are kept: as bits, eight in a byte and a
// multiple of 128, or as bytes.
#include <vector>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

using at::Scalar;
using c10::SymInt;

constexpr int64_t kBitsAtATime = 128;

void check_share(const char* op, double p) {
  TORCH_CHECK(p >= 0 && p <= 1, op, ": the share of elements to drop is ", p, ", allowed are 0 to 1");
}

void check_share(const char* op, const Tensor& input, double p) {
  check_floating(op, "input", input);
  check_share(op, p);
}

// Number of bits of a mask for `elements` elements.
SymInt bits_of(const SymInt& elements) { return (elements + (kBitsAtATime - 1)) / kBitsAtATime * kBitsAtATime; }

Tensor drawn_mask(const Tensor& like, const SymInt& count, double p) {
  return uniform({count}, like.options().dtype(at::kFloat)) >= p;
}

// `kept` has the shape of x.
Tensor scaled_kept(const Tensor& x, const Tensor& kept, double p) {
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  return (wide(x) * kept * scale).to(x.scalar_type());
}

Tensor by_bits(const char* op, const Tensor& x, const Tensor& mask, double p) {
  check_type(op, "mask", mask, {at::kByte});
  TORCH_CHECK(mask.sym_numel() * 8 >= x.sym_numel(), op, ": mask has ", mask.sym_numel() * 8, " bits, and not ",
              x.sym_numel());
  const Tensor bits = unpack_bits(mask.reshape(-1)).slice_symint(0, 0, x.sym_numel());
  return scaled_kept(x, bits.view_symint(x.sym_sizes()), p);
}

Two dropout(const Tensor& input, double p) {
  check_share("_npu_dropout", input, p);
  const Tensor mask = pack_bits(drawn_mask(input, bits_of(input.sym_numel()), p));
  return {by_bits("_npu_dropout", input, mask, p), mask};
}

Two dropout_do_mask(const Tensor& input, const Tensor& mask, double p) {
  check_share("npu_dropout_do_mask", input, p);
  return {by_bits("npu_dropout_do_mask", input, mask, p), mask.clone()};
}

// The mask is stored in bytes, whatever type the elements have.
Tensor dropout_gen_mask(at::IntArrayRef size, double p, std::optional<at::ScalarType> /*dtype*/,
                        std::optional<at::Layout> layout, std::optional<at::Device> device,
                        std::optional<bool> pin_memory) {
  constexpr const char* kOp = "npu_dropout_gen_mask";
  check_share(kOp, p);
  const auto options = options_on_npu(kOp, at::kFloat, layout, device, pin_memory);
  return pack_bits(uniform({bits_of(c10::multiply_integers(size))}, options) >= p);
}

Tensor dropout_backward(const Tensor& grad, const Tensor& mask, double p) {
  check_share("npu_dropout_backward", grad, p);
  return by_bits("npu_dropout_backward", grad, mask, p);
}

Two dropout_with_byte_mask_saving(const Tensor& input, double p) {
  check_share("_dropout_with_byte_mask", input, p);
  const Tensor mask = drawn_mask(input, input.sym_numel(), p);
  return {scaled_kept(input, mask.view_symint(input.sym_sizes()), p), mask.to(at::kByte)};
}

Tensor dropout_with_byte_mask(const Tensor& input, double p, bool train) {
  check_share("dropout_with_byte_mask", input, p);
  if (!train) return input.clone();
  return scaled_kept(input, drawn_mask(input, input.sym_numel(), p).view_symint(input.sym_sizes()), p);
}

Tensor dropout_with_byte_mask_backward(const Tensor& grad, const Tensor& mask, double p) {
  check_share("_dropout_with_byte_mask_backward", grad, p);
  return scaled_kept(grad, mask.ne(0).view_symint(grad.sym_sizes()), p);
}

Three dropout_with_add_softmax(const Tensor& input, const Tensor& x1, const Scalar& alpha, double p, int64_t dim) {
  constexpr const char* kOp = "npu_dropout_with_add_softmax";
  check_share(kOp, input, p);
  check_same_shape(kOp, "x1", x1, "input", input);
  const Tensor softmax = (wide(x1) + wide(input) * alpha).softmax(dim).to(x1.scalar_type());
  const Tensor mask = drawn_mask(input, input.sym_numel(), p).view_symint(input.sym_sizes());
  return {mask.to(at::kByte), softmax, scaled_kept(softmax, mask, p)};
}

Two dropout_with_add_softmax_backward(const Tensor& grad, const Tensor& mask, const Tensor& softmax,
                                      const Scalar& alpha, double p, int64_t dim) {
  check_share("npu_dropout_with_add_softmax_backward", grad, p);
  const Tensor out = wide(softmax);
  const Tensor of_softmax = wide(scaled_kept(grad, mask.ne(0).view_symint(grad.sym_sizes()), p));
  const Tensor of_sum = out * (of_softmax - (of_softmax * out).sum(dim, true));
  return {(of_sum * alpha).to(grad.scalar_type()), of_sum.to(grad.scalar_type())};
}

// Positions of true elements in a random order. If there are too few, others follow, which the mask marks as invalid.
Two random_choice_with_mask(const Tensor& x, int64_t count, int64_t, int64_t) {
  constexpr const char* kOp = "npu_random_choice_with_mask";
  check_type(kOp, "x", x, {at::kBool});
  check_dims(kOp, "x", x, 1, 5);
  TORCH_CHECK(count >= 1, kOp, ": count is ", count, ", allowed are 1 and more");
  const Tensor flat = x.reshape(-1);
  const Tensor order = (uniform({flat.sym_size(0)}, x.options().dtype(at::kFloat)) + flat).argsort(0, true);
  const Tensor chosen = longer(order, 0, (SymInt(count) - flat.sym_size(0)).max(0), -1).narrow(0, 0, count);
  const Tensor valid = (chosen >= 0).logical_and(flat.index_select(0, chosen.clamp_min(0)));
  Tensor rest = chosen.masked_fill(valid.logical_not(), 0);
  std::vector<Tensor> places(x.dim());
  for (int64_t dim = x.dim() - 1; dim >= 0; --dim) {
    places[dim] = rest.remainder(Scalar(x.sym_size(dim)));
    rest = rest.floor_divide(Scalar(x.sym_size(dim)));
  }
  return {at::stack(places, 1).to(at::kInt), valid};
}

Tensor& sim_exponential_(Tensor& input, double lambd, std::optional<at::Generator> generator) {
  return input.exponential_(lambd, generator);
}

}  // namespace

void define_dropout(OperatorLibrary& library) {
  library.add({
      .schema = "npu::_dropout_with_byte_mask(Tensor input, float p) -> (Tensor, Tensor)",
      .kernel = parts(&dropout_with_byte_mask_saving),
      .definition = "dropout_with_byte_mask with train=True that also returns its mask. Results: the output, and the "
                    "mask in uint8, [number of elements of input], with 1 for each element that is kept.",
  });
  library.add({
      .schema = "npu::_dropout_with_byte_mask_backward(Tensor grad_output, Tensor mask, float p) -> Tensor",
      .kernel = parts(&dropout_with_byte_mask_backward),
      .definition = "Gradient of _dropout_with_byte_mask with respect to input: grad_output / (1 - p) where mask, the "
                    "second result of the forward call, is not 0, and 0 elsewhere.",
  });
  library.add({
      .schema = "npu::_npu_dropout(Tensor input, float p) -> (Tensor, Tensor)",
      .kernel = parts(&dropout),
      .definition = "Dropout (Srivastava et al., 2014) that also returns its mask: zeroes each element of input with "
                    "probability p and divides the others by 1 - p. Results: the output, of the shape and type of "
                    "input, and the mask in uint8, which has one bit for each element, 1 for those that are kept, with "
                    "the first element in the lowest bit of the first byte. The number of bits is rounded up to a "
                    "multiple of 128.",
  });
  library.add({
      .schema = "npu::dropout_with_byte_mask(Tensor input, float p, bool train) -> Tensor",
      .kernel = parts(&dropout_with_byte_mask),
      .definition = "torch.nn.functional.dropout (Srivastava et al., 2014): zeroes each element of input with "
                    "probability p and divides the others by 1 - p. Without train, the result is a copy of input.",
  });
  library.add({
      .schema = "npu::npu_dropout_backward(Tensor grad_output, Tensor mask, float p) -> Tensor",
      .kernel = parts(&dropout_backward),
      .definition = "Gradient of _npu_dropout with respect to input: grad_output / (1 - p) where the bit in mask, the "
                    "second result of the forward call, is 1, and 0 elsewhere.",
  });
  library.add({
      .schema = "npu::npu_dropout_do_mask(Tensor input, Tensor mask, float p) -> (Tensor, Tensor)",
      .kernel = parts(&dropout_do_mask),
      .definition = "_npu_dropout with a given mask, in uint8 with a bit for each element of input. Results: the "
                    "output, and a copy of mask.",
  });
  library.add({
      .schema = "npu::npu_dropout_gen_mask(int[] size, float p, *, ScalarType? dtype=None, Layout? layout=None, "
                "Device? device=None, bool? pin_memory=None) -> Tensor",
      .kernel = factory(&dropout_gen_mask),
      .definition = "Draws a mask of _npu_dropout for a tensor of shape size: uint8 with one bit for each element, "
                    "which is 1 with probability 1 - p. The number of bits is rounded up to a multiple of 128. dtype "
                    "is ignored, because the mask is always of bytes.",
  });
  library.add({
      .schema = "npu::npu_dropout_with_add_softmax(Tensor input, Tensor x1, Scalar alpha, float prob, int dim) -> "
                "(Tensor, Tensor, Tensor)",
      .kernel = parts(&dropout_with_add_softmax),
      .definition = "Softmax of x1 + alpha * input along dim, followed by dropout with probability prob. input and x1 "
                    "have the same shape. Results, of this shape: the mask of the dropout in uint8, with 1 for each "
                    "element that is kept, the softmax before the dropout, and the softmax after it, both in the type "
                    "of x1.",
  });
  library.add({
      .schema = "npu::npu_dropout_with_add_softmax_backward(Tensor grad, Tensor mask, Tensor softmax_out, Scalar "
                "alpha, float prob, int dim) -> (Tensor, Tensor)",
      .kernel = parts(&dropout_with_add_softmax_backward),
      .definition = "Gradients of npu_dropout_with_add_softmax with respect to input and x1, in this order and in the "
                    "type of grad. grad is the gradient of its third result; mask and softmax_out are its first and "
                    "second results.",
  });
  library.add({
      .schema =
          "npu::npu_random_choice_with_mask(Tensor x, int count=256, int seed=0, int seed2=0) -> (Tensor, Tensor)",
      .kernel = parts(&random_choice_with_mask),
      .definition = "Draws count random positions of true elements of the boolean tensor x, without replacement. x has "
                    "1 to 5 dimensions. Results: the indices in int32, [count, x.dim()], and a bool tensor [count], "
                    "which is False where x has fewer true elements than count; the indices there are 0. seed and "
                    "seed2 are ignored: torch.manual_seed seeds the draw.",
  });
  library.add({
      .schema =
          "npu::npu_sim_exponential_(Tensor(a!) input, float lambd=1, *, Generator? generator=None) -> Tensor(a!)",
      .kernel = composite(&sim_exponential_),
      .definition = "torch.Tensor.exponential_: fills input in place with random numbers of the exponential "
                    "distribution with rate lambd, from generator if it is given, and returns it.",
  });
}

}  // namespace npugraph::npu_ops
