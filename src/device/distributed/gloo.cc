// SPDX-License-Identifier: Apache-2.0
#include "device/distributed/gloo.h"

#include <algorithm>
#include <array>
#include <utility>

namespace npugraph::distributed {
namespace {

using c10d::ReduceOp;

constexpr std::array kOpNames = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};

Tensor bytes(const Tensor& data) { return data.view(at::kByte); }

std::vector<Tensor> bytes(const std::vector<Tensor>& data) {
  std::vector<Tensor> out;
  for (const Tensor& tensor : data) out.push_back(bytes(tensor));
  return out;
}

bool equal_sizes(const std::vector<Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const Tensor& tensor) { return tensor.numel() == tensors.front().numel(); });
}

bool is_bitwise(ReduceOp::RedOpType op) { return op == ReduceOp::BAND || op == ReduceOp::BOR || op == ReduceOp::BXOR; }

Reduction logical_reduction(const char* call, ReduceOp::RedOpType op) {
  using enum ReduceOp::RedOpType;
  TORCH_CHECK(op != AVG, call, ": tensors of bool have no average");
  if (op == BXOR) return {BXOR, at::kByte};
  const bool any = op == SUM || op == MAX || op == BOR;
  return {any ? MAX : MIN, at::kByte};
}

// The data as elements of the carrier type, over the same memory if possible.
Tensor carried(const Tensor& data, const Reduction& reduction) {
  return data.scalar_type() == at::kBool ? bytes(data) : data.to(reduction.carrier);
}

void put_back(const Tensor& carrier, const Tensor& data, const Reduction& reduction, int size) {
  const bool whole = c10::isIntegralType(reduction.carrier, false);
  Tensor out = carrier;
  if (reduction.average) out.div_(size, whole ? std::optional<c10::string_view>("trunc") : std::nullopt);
  if (!out.is_alias_of(data)) data.copy_(out);
}

}  // namespace

Reduction reduction_of(const char* call, at::ScalarType type, const ReduceOp& op) {
  TORCH_CHECK(op.op_ < ReduceOp::PREMUL_SUM, call,
              ": reduce operations are SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR and ", "BXOR, got ",
              op.op_ == ReduceOp::PREMUL_SUM ? kOpNames.back() : "an unknown one");
  if (type == at::kBool) return logical_reduction(call, op);
  Reduction out{op, type};
  if (op == ReduceOp::AVG) out = {ReduceOp::SUM, type, true};
  switch (type) {
    case at::kChar:
    case at::kByte:
    case at::kInt:
    case at::kLong: return out;
    case at::kShort: out.carrier = at::kInt; return out;
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
      TORCH_CHECK(!is_bitwise(op), call, ": ", kOpNames[op.op_], " is for integers and bool, got ", type);
      return out;
    default:
      TORCH_CHECK(false, call, ": reduces bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32 and ",
                  "float64, got ", type);
  }
}

Tensor packed(const Tensor& memory) { return memory.resolve_conj().resolve_neg().contiguous().view({-1}); }

void unpack(const Tensor& packed, const Tensor& memory) {
  if (!packed.is_alias_of(memory)) memory.copy_(packed.view(memory.sizes()));
}

std::vector<Tensor> packed(const std::vector<Tensor>& memories) {
  std::vector<Tensor> out;
  for (const Tensor& memory : memories) out.push_back(packed(memory));
  return out;
}

void unpack(const std::vector<Tensor>& packed, const std::vector<Tensor>& memories) {
  for (size_t i = 0; i < packed.size(); ++i) unpack(packed[i], memories[i]);
}

void Gloo::broadcast(const Tensor& data, int64_t root) const {
  if (data.numel() == 0) return;
  auto options = with_timeout<c10d::BroadcastOptions>();
  options.rootRank = root;
  std::vector<Tensor> tensors = {bytes(data)};
  backend_->broadcast(tensors, options)->wait();
}

void Gloo::all_reduce(const Tensor& data, const Reduction& reduction) const {
  if (data.numel() == 0) return;
  auto options = with_timeout<c10d::AllreduceOptions>();
  options.reduceOp = reduction.op;
  std::vector<Tensor> tensors = {carried(data, reduction)};
  backend_->allreduce(tensors, options)->wait();
  put_back(tensors[0], data, reduction, size());
}

void Gloo::reduce(const Tensor& data, int64_t root, const Reduction& reduction) const {
  if (data.numel() == 0) return;
  auto options = with_timeout<c10d::ReduceOptions>();
  options.reduceOp = reduction.op;
  options.rootRank = root;
  const bool is_root = rank() == root;
  std::vector<Tensor> tensors = {carried(is_root ? data : data.clone(), reduction)};
  backend_->reduce(tensors, options)->wait();
  if (is_root) put_back(tensors[0], data, reduction, size());
}

void Gloo::all_gather(const std::vector<Tensor>& out, const Tensor& data) const {
  if (equal_sizes(out)) {
    if (data.numel() == 0) return;
    std::vector<std::vector<Tensor>> outs = {bytes(out)};
    std::vector<Tensor> tensors = {bytes(data)};
    backend_->allgather(outs, tensors, with_timeout<c10d::AllgatherOptions>())->wait();
    return;
  }
  out[rank()].copy_(data);
  for (size_t root = 0; root < out.size(); ++root) broadcast(out[root], static_cast<int64_t>(root));
}

void Gloo::all_gather_equal(const Tensor& out, const Tensor& data) const {
  if (data.numel() == 0) return;
  Tensor to = bytes(out), from = bytes(data);
  backend_->_allgather_base(to, from, with_timeout<c10d::AllgatherOptions>())->wait();
}

void Gloo::gather(const std::vector<Tensor>& out, const Tensor& data, int64_t root) const {
  if (data.numel() == 0) return;
  auto options = with_timeout<c10d::GatherOptions>();
  options.rootRank = root;
  std::vector<std::vector<Tensor>> outs;
  if (rank() == root) outs.push_back(bytes(out));
  std::vector<Tensor> tensors = {bytes(data)};
  backend_->gather(outs, tensors, options)->wait();
}

void Gloo::scatter(const Tensor& out, const std::vector<Tensor>& data, int64_t root) const {
  if (out.numel() == 0) return;
  auto options = with_timeout<c10d::ScatterOptions>();
  options.rootRank = root;
  std::vector<std::vector<Tensor>> pieces;
  if (rank() == root) pieces.push_back(bytes(data));
  std::vector<Tensor> tensors = {bytes(out)};
  backend_->scatter(tensors, pieces, options)->wait();
}

void Gloo::reduce_scatter(const Tensor& out, const std::vector<Tensor>& data, const Reduction& reduction) const {
  if (equal_sizes(data)) return reduce_scatter_equal(out, at::cat(data), reduction);
  for (size_t root = 0; root < data.size(); ++root) {
    const bool is_root = static_cast<size_t>(rank()) == root;
    if (is_root) out.copy_(data[root]);
    reduce(is_root ? out : data[root], static_cast<int64_t>(root), reduction);
  }
}

void Gloo::reduce_scatter_equal(const Tensor& out, const Tensor& data, const Reduction& reduction) const {
  if (out.numel() == 0) return;
  auto options = with_timeout<c10d::ReduceScatterOptions>();
  options.reduceOp = reduction.op;
  Tensor to = carried(out, reduction), from = carried(data, reduction);
  backend_->_reduce_scatter_base(to, from, options)->wait();
  put_back(to, out, reduction, size());
}

void Gloo::all_to_all(const Tensor& out, const Tensor& data, std::vector<int64_t> out_sizes,
                      std::vector<int64_t> sizes) const {
  for (int64_t& elements : out_sizes) elements *= out.element_size();
  for (int64_t& elements : sizes) elements *= data.element_size();
  Tensor to = bytes(out), from = bytes(data);
  backend_->alltoall_base(to, from, out_sizes, sizes, with_timeout<c10d::AllToAllOptions>())->wait();
}

void Gloo::barrier() const { backend_->barrier(with_timeout<c10d::BarrierOptions>())->wait(); }

}  // namespace npugraph::distributed
