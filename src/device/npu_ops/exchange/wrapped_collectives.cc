// SPDX-License-Identifier: Apache-2.0
// Collectives of torch.distributed as operators, which take the process group as an object.
#include <numeric>
#include <string>
#include <utility>

#include <torch/custom_class.h>

#include "device/distributed/process_group_hccl.h"
#include "device/npu_ops/families.h"
#include "device/npu_ops/registration.h"

namespace npugraph::npu_ops {
namespace {

using at::IntArrayRef;
using at::Tensor;
using distributed::ProcessGroupHccl;
using distributed::WorkPtr;
using HcclGroup = c10::intrusive_ptr<ProcessGroupHccl>;

// Splits `tensor` along dimension 0 into one piece for each rank, of `sizes` rows, or of equal
// sizes if `sizes` is empty.
std::vector<Tensor> pieces_of(const char* op, const char* name, const Tensor& tensor, IntArrayRef sizes, int ranks) {
  TORCH_CHECK(tensor.dim() > 0, op, ": ", name, " must have dimensions, and is a scalar");
  const int64_t rows = tensor.size(0);
  TORCH_CHECK(!sizes.empty() || rows % ranks == 0, op, ": the ", rows, " rows of ", name,
              " cannot be split evenly over ", ranks, " ranks");
  const std::vector<int64_t> all = sizes.empty() ? std::vector<int64_t>(ranks, rows / ranks) : sizes.vec();
  TORCH_CHECK(all.size() == static_cast<size_t>(ranks) && std::accumulate(all.begin(), all.end(), int64_t{0}) == rows,
              op, ": the pieces of ", name, " must be ", ranks, " numbers that add up to its ", rows, " rows, got ",
              IntArrayRef(all));
  return tensor.split_with_sizes(all);
}

// A timeout in milliseconds; the timeout of the group if the number is not positive.
std::chrono::milliseconds timeout_of(int64_t milliseconds) {
  return milliseconds > 0 ? std::chrono::milliseconds(milliseconds) : c10d::kUnsetTimeout;
}

WorkPtr all_gather_uneven(const Tensor& output, const Tensor& input, IntArrayRef sizes, const HcclGroup& group,
                          int64_t timeout) {
  std::vector<std::vector<Tensor>> outputs = {
      pieces_of("wrap_allgather_base_uneven_inner", "output_tensor", output, sizes, group->getSize())};
  std::vector<Tensor> inputs = {input};
  c10d::AllgatherOptions options;
  options.timeout = timeout_of(timeout);
  return group->allgather(outputs, inputs, options);
}

WorkPtr reduce_scatter_uneven(const Tensor& output, const Tensor& input, IntArrayRef sizes, const HcclGroup& group,
                              const c10::intrusive_ptr<c10d::ReduceOp>& reduce_op, int64_t timeout) {
  std::vector<std::vector<Tensor>> inputs = {
      pieces_of("wrap_reduce_scatter_base_uneven_inner", "input_tensor", input, sizes, group->getSize())};
  std::vector<Tensor> outputs = {output};
  c10d::ReduceScatterOptions options;
  options.reduceOp = *reduce_op;
  options.timeout = timeout_of(timeout);
  return group->reduce_scatter(outputs, inputs, options);
}

WorkPtr all_to_all_counts(const Tensor& output, const Tensor& input, IntArrayRef counts, const HcclGroup& group,
                          int64_t timeout) {
  const int64_t ranks = group->getSize(), rank = group->getRank();
  TORCH_CHECK(static_cast<int64_t>(counts.size()) == ranks * ranks,
              "wrap_alltoallvc_inner: send_count_matrix must have ", ranks * ranks, " counts, got ", counts.size());
  std::vector<int64_t> sent = counts.slice(rank * ranks, ranks).vec(), received;
  for (int64_t other = 0; other < ranks; ++other) received.push_back(counts[other * ranks + rank]);
  Tensor to = output.view(-1), from = input.view(-1);
  c10d::AllToAllOptions options;
  options.timeout = timeout_of(timeout);
  return group->alltoall_base(to, from, received, sent, options);
}

WorkPtr send_and_receive(at::TensorList tensors, const std::vector<std::string>& kinds, IntArrayRef ranks,
                         const HcclGroup& group) {
  constexpr const char* kOp = "wrap_batch_isend_irecv_inner";
  TORCH_CHECK(!tensors.empty() && tensors.size() == kinds.size() && tensors.size() == ranks.size(), kOp,
              ": takes as many tensors as op_type and remote_rank_list have, and at least one; got ", tensors.size(),
              ", ", kinds.size(), " and ", ranks.size());
  for (const std::string& kind : kinds)
    TORCH_CHECK(kind == "isend" || kind == "irecv", kOp, ": op_type has '", kind, "', allowed are isend and irecv");
  group->startCoalescing();
  try {
    for (size_t index = 0; index < tensors.size(); ++index) {
      std::vector<Tensor> one = {tensors[index]};
      const int other = static_cast<int>(ranks[index]);
      kinds[index] == "isend" ? group->send(one, other, 0) : group->recv(one, other, 0);
    }
  } catch (...) {
    group->endCoalescing();
    throw;
  }
  return group->endCoalescing();
}

}  // namespace

void register_process_group_class() {
  static const torch::class_<ProcessGroupHccl> known("npu_custom_dist", "ProcessGroupHCCL");
}

void define_wrapped_collectives(OperatorLibrary& library) {
  library.add({
      .schema = "npu::wrap_allgather_base_uneven_inner(Tensor output_tensor, Tensor input_tensor, int[] "
                "output_split_sizes, __torch__.torch.classes.npu_custom_dist.ProcessGroupHCCL process_group_hccl, int "
                "timeout) -> __torch__.torch.classes.c10d.Work",
      .kernel = on_npu(&all_gather_uneven),
      .definition = "All-gather of tensors with different numbers of rows, as "
                    "torch_npu.distributed.all_gather_into_tensor_uneven: output_tensor receives the input_tensor of "
                    "all ranks, one after the other along dimension 0. output_split_sizes holds the rows of each rank; "
                    "if it is empty, all have equally many. timeout is in milliseconds; if it is not positive, that of "
                    "the group holds. The result is the torch.distributed.Work of the call.",
  });
  library.add({
      .schema = "npu::wrap_alltoallvc_inner(Tensor output_tensor, Tensor input_tensor, int[] send_count_matrix, "
                "__torch__.torch.classes.npu_custom_dist.ProcessGroupHCCL process_group_hccl, int timeout) -> "
                "__torch__.torch.classes.c10d.Work",
      .kernel = on_npu(&all_to_all_counts),
      .definition = "All-to-all with a matrix of counts, as torch_npu.distributed.all_to_all_vc: send_count_matrix[i * "
                    "ranks + j] elements go from rank i to rank j. input_tensor and output_tensor are contiguous and "
                    "count as flat; elements are ordered by rank. timeout and result are as in "
                    "wrap_allgather_base_uneven_inner.",
  });
  library.add({
      .schema = "npu::wrap_batch_isend_irecv_inner(Tensor[] tensors, str[] op_type, int[] remote_rank_list, "
                "__torch__.torch.classes.npu_custom_dist.ProcessGroupHCCL process_group_hccl) -> "
                "__torch__.torch.classes.c10d.Work",
      .kernel = on_npu(&send_and_receive),
      .definition = "Sends and receives several tensors together, as torch.distributed.batch_isend_irecv: tensors[i] "
                    "goes to rank remote_rank_list[i] if op_type[i] is isend, and is received from it if op_type[i] is "
                    "irecv. The result is the torch.distributed.Work of all of them.",
  });
  library.add({
      .schema = "npu::wrap_reduce_scatter_base_uneven_inner(Tensor output_tensor, Tensor input_tensor, int[] "
                "input_split_sizes, __torch__.torch.classes.npu_custom_dist.ProcessGroupHCCL process_group_hccl, "
                "__torch__.torch.classes.c10d.ReduceOp reduce_op, int timeout) -> __torch__.torch.classes.c10d.Work",
      .kernel = on_npu(&reduce_scatter_uneven),
      .definition = "Reduce-scatter with pieces of different numbers of rows, as "
                    "torch_npu.distributed.reduce_scatter_tensor_uneven: input_tensor is reduced over all ranks by "
                    "reduce_op, and output_tensor receives the piece of this rank. input_split_sizes holds the rows of "
                    "each rank's piece; if it is empty, all are equal. timeout and result are as in "
                    "wrap_allgather_base_uneven_inner.",
  });
}

}  // namespace npugraph::npu_ops
