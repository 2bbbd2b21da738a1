// SPDX-License-Identifier: Apache-2.0
// The collectives: the checks of their tensors, and their parts in gloo's collectives.
#include <numeric>
#include <utility>

#include "device/distributed/process_group_hccl.h"

namespace npugraph::distributed {
namespace {

using c10d::OpType;

template <typename T>
T& only(const char* call, std::vector<T>& items) {
  TORCH_CHECK(items.size() == 1, call, ": takes one tensor, or one list of tensors, per rank, got ", items.size());
  return items[0];
}

void check_same_type(const char* call, const Tensor& output, const Tensor& input) {
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), call, ": output and input must have one type, got ",
              output.scalar_type(), " and ", input.scalar_type());
}

// Requires one tensor for each rank, of the type of `single`.
void check_list(const char* call, const Tensors& list, const Tensor& single, int size) {
  TORCH_CHECK(list.size() == static_cast<size_t>(size), call, ": takes a list of ", size, " tensors, got ",
              list.size());
  for (const Tensor& tensor : list) check_same_type(call, tensor, single);
}

// Requires that `large` has the type of `small` and `size` times its elements.
void check_multiple(const char* call, const char* large_name, const Tensor& large, const Tensor& small, int size) {
  check_same_type(call, large, small);
  TORCH_CHECK(large.numel() == small.numel() * size, call, ": ", large_name, " must have ", small.numel(), " * ", size,
              " elements, got ", large.numel());
}

void check_elements(const char* call, int rank, const Tensor& piece, const Tensor& single) {
  TORCH_CHECK(piece.numel() == single.numel(), call, ": tensor ", rank, " of the list must have the ", single.numel(),
              " elements of this rank's tensor, got ", piece.numel());
}

// Requires one tensor for each rank, of the type of `single` and with as many elements.
void check_equal_list(const char* call, const Tensors& list, const Tensor& single, int size) {
  check_list(call, list, single, size);
  for (int rank = 0; rank < size; ++rank) check_elements(call, rank, list[rank], single);
}

// Sizes of pieces along the first dimension as numbers of elements.
std::vector<int64_t> elements_of(const char* call, const char* name, const Tensor& tensor, std::vector<int64_t> sizes,
                                 int size) {
  const int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  if (sizes.empty()) {
    TORCH_CHECK(rows % size == 0, call, ": the ", rows, " rows of ", name, " cannot be split evenly over ", size,
                " ranks; pass split sizes");
    sizes.assign(size, rows / size);
  }
  TORCH_CHECK(sizes.size() == static_cast<size_t>(size), call, ": takes ", size, " split sizes of ", name, ", got ",
              sizes.size());
  const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  TORCH_CHECK(sum == rows, call, ": split sizes of ", name, " must add up to its ", rows, " rows, got ", sum);
  for (int64_t& piece : sizes) piece *= rows == 0 ? 0 : tensor.numel() / rows;
  return sizes;
}

std::vector<int64_t> element_counts(const Tensors& tensors) {
  std::vector<int64_t> out;
  for (const Tensor& tensor : tensors) out.push_back(tensor.numel());
  return out;
}

std::vector<Reduction> reductions_of(const char* call, const Tensors& tensors, const c10d::ReduceOp& op) {
  std::vector<Reduction> out;
  for (const Tensor& tensor : tensors) out.push_back(reduction_of(call, tensor.scalar_type(), op));
  return out;
}

Tensors flattened(const std::vector<Tensors>& lists) {
  Tensors out;
  for (const Tensors& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
}

}  // namespace

WorkPtr ProcessGroupHccl::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const Call call{"hccl:broadcast", OpType::BROADCAST, options.timeout};
  only(call.title, tensors);
  return submit(call, {}, tensors, [root = options.rootRank](const Gloo& gloo, const Tensors&, const Tensors& into) {
    const Tensor data = packed(into[0]);
    gloo.broadcast(data, root);
    unpack(data, into[0]);
  });
}

WorkPtr ProcessGroupHccl::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Call call{"hccl:all_reduce", OpType::ALLREDUCE, options.timeout};
  const Reduction reduction = reduction_of(call.title, only(call.title, tensors).scalar_type(), options.reduceOp);
  return submit(call, {}, tensors, [reduction](const Gloo& gloo, const Tensors&, const Tensors& into) {
    const Tensor data = packed(into[0]);
    gloo.all_reduce(data, reduction);
    unpack(data, into[0]);
  });
}

WorkPtr ProcessGroupHccl::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  const Call call{"hccl:all_reduce_coalesced", OpType::ALLREDUCE_COALESCED, options.timeout};
  const auto reductions = reductions_of(call.title, tensors, options.reduceOp);
  return submit(call, {}, tensors, [reductions](const Gloo& gloo, const Tensors&, const Tensors& into) {
    for (size_t i = 0; i < into.size(); ++i) {
      const Tensor data = packed(into[i]);
      gloo.all_reduce(data, reductions[i]);
      unpack(data, into[i]);
    }
  });
}

WorkPtr ProcessGroupHccl::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const Call call{"hccl:reduce", OpType::REDUCE, options.timeout};
  const Reduction reduction = reduction_of(call.title, only(call.title, tensors).scalar_type(), options.reduceOp);
  return submit(call, {}, tensors,
                [reduction, root = options.rootRank](const Gloo& gloo, const Tensors&, const Tensors& into) {
                  const Tensor data = packed(into[0]);
                  gloo.reduce(data, root, reduction);
                  unpack(data, into[0]);
                });
}

WorkPtr ProcessGroupHccl::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions& options) {
  const Call call{"hccl:all_gather", OpType::ALLGATHER, options.timeout};
  const Tensor& input = only(call.title, inputs);
  const Tensors& list = only(call.title, outputs);
  check_list(call.title, list, input, getSize());
  check_elements(call.title, getRank(), list[getRank()], input);
  return submit(call, inputs, list, [](const Gloo& gloo, const Tensors& from, const Tensors& into) {
    const Tensors data = packed(into);
    gloo.all_gather(data, packed(from[0]));
    unpack(data, into);
  });
}

WorkPtr ProcessGroupHccl::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  const Call call{"hccl:all_gather_coalesced", OpType::ALLGATHER_COALESCED, options.timeout};
  TORCH_CHECK(outputs.size() == static_cast<size_t>(getSize()), call.title, ": takes ", getSize(),
              " lists of tensors, got ", outputs.size());
  for (const Tensors& list : outputs) {
    TORCH_CHECK(list.size() == inputs.size(), call.title, ": each list must have ", inputs.size(), " tensors, got ",
                list.size());
    for (size_t i = 0; i < list.size(); ++i) check_multiple(call.title, "each output", list[i], inputs[i], 1);
  }
  return submit(call, inputs, flattened(outputs), [](const Gloo& gloo, const Tensors& from, const Tensors& into) {
    for (size_t i = 0; i < from.size(); ++i) {
      Tensors pieces;
      for (size_t at = i; at < into.size(); at += from.size()) pieces.push_back(into[at]);
      const Tensors data = packed(pieces);
      gloo.all_gather(data, packed(from[i]));
      unpack(data, pieces);
    }
  });
}

WorkPtr ProcessGroupHccl::_allgather_base(Tensor& output, Tensor& input, const c10d::AllgatherOptions& options) {
  Tensors outputs = {output}, inputs = {input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkPtr ProcessGroupHccl::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& options) {
  const Call call{"hccl:all_gather_into_tensor", OpType::_ALLGATHER_BASE, options.timeout};
  TORCH_CHECK(outputs.size() == inputs.size(), call.title, ": takes as many outputs as inputs, got ", outputs.size(),
              " and ", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) check_multiple(call.title, "the output", outputs[i], inputs[i], getSize());
  return submit(call, inputs, outputs, [](const Gloo& gloo, const Tensors& from, const Tensors& into) {
    for (size_t i = 0; i < from.size(); ++i) {
      const Tensor data = packed(into[i]);
      gloo.all_gather_equal(data, packed(from[i]));
      unpack(data, into[i]);
    }
  });
}

WorkPtr ProcessGroupHccl::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  const Call call{"hccl:gather", OpType::GATHER, options.timeout};
  const Tensor& input = only(call.title, inputs);
  Tensors list;
  if (getRank() == options.rootRank) {
    list = only(call.title, outputs);
    check_equal_list(call.title, list, input, getSize());
  }
  return submit(call, inputs, list,
                [root = options.rootRank](const Gloo& gloo, const Tensors& from, const Tensors& into) {
                  const Tensors data = packed(into);
                  gloo.gather(data, packed(from[0]), root);
                  unpack(data, into);
                });
}

WorkPtr ProcessGroupHccl::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  const Call call{"hccl:scatter", OpType::SCATTER, options.timeout};
  const Tensor& output = only(call.title, outputs);
  Tensors list;
  if (getRank() == options.rootRank) {
    list = only(call.title, inputs);
    check_equal_list(call.title, list, output, getSize());
  }
  return submit(call, list, outputs,
                [root = options.rootRank](const Gloo& gloo, const Tensors& from, const Tensors& into) {
                  const Tensor data = packed(into[0]);
                  gloo.scatter(data, packed(from), root);
                  unpack(data, into[0]);
                });
}

WorkPtr ProcessGroupHccl::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                         const c10d::ReduceScatterOptions& options) {
  const Call call{"hccl:reduce_scatter", OpType::REDUCE_SCATTER, options.timeout};
  const Tensor& output = only(call.title, outputs);
  const Tensors& list = only(call.title, inputs);
  check_list(call.title, list, output, getSize());
  check_elements(call.title, getRank(), list[getRank()], output);
  const Reduction reduction = reduction_of(call.title, output.scalar_type(), options.reduceOp);
  return submit(call, list, outputs, [reduction](const Gloo& gloo, const Tensors& from, const Tensors& into) {
    const Tensor data = packed(into[0]);
    gloo.reduce_scatter(data, packed(from), reduction);
    unpack(data, into[0]);
  });
}

WorkPtr ProcessGroupHccl::_reduce_scatter_base(Tensor& output, Tensor& input,
                                               const c10d::ReduceScatterOptions& options) {
  Tensors outputs = {output}, inputs = {input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

WorkPtr ProcessGroupHccl::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::ReduceScatterOptions& options) {
  const Call call{"hccl:reduce_scatter_tensor", OpType::_REDUCE_SCATTER_BASE, options.timeout};
  TORCH_CHECK(outputs.size() == inputs.size(), call.title, ": takes as many outputs as inputs, got ", outputs.size(),
              " and ", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) check_multiple(call.title, "the input", inputs[i], outputs[i], getSize());
  const auto reductions = reductions_of(call.title, inputs, options.reduceOp);
  return submit(call, inputs, outputs, [reductions](const Gloo& gloo, const Tensors& from, const Tensors& into) {
    for (size_t i = 0; i < from.size(); ++i) {
      const Tensor data = packed(into[i]);
      gloo.reduce_scatter_equal(data, packed(from[i]), reductions[i]);
      unpack(data, into[i]);
    }
  });
}

WorkPtr ProcessGroupHccl::alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& output_sizes,
                                        std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) {
  const Call call{"hccl:all_to_all_single", OpType::ALLTOALL_BASE, options.timeout};
  check_same_type(call.title, output, input);
  auto to = elements_of(call.title, "output", output, output_sizes, getSize());
  auto sizes = elements_of(call.title, "input", input, input_sizes, getSize());
  return submit(call, {input}, {output}, [to, sizes](const Gloo& gloo, const Tensors& from, const Tensors& into) {
    const Tensor data = packed(into[0]);
    gloo.all_to_all(data, packed(from[0]), to, sizes);
    unpack(data, into[0]);
  });
}

WorkPtr ProcessGroupHccl::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  const Call call{"hccl:all_to_all", OpType::ALLTOALL, options.timeout};
  TORCH_CHECK(!inputs.empty(), call.title, ": takes a list of ", getSize(), " tensors, got 0");
  check_list(call.title, inputs, inputs[0], getSize());
  check_list(call.title, outputs, inputs[0], getSize());
  check_elements(call.title, getRank(), outputs[getRank()], inputs[getRank()]);
  return submit(call, inputs, outputs, [](const Gloo& gloo, const Tensors& from, const Tensors& into) {
    const std::vector<int64_t> to = element_counts(into);
    const Tensor pieces = at::cat(packed(from));
    const Tensor data = at::empty({std::accumulate(to.begin(), to.end(), int64_t{0})}, pieces.options());
    gloo.all_to_all(data, pieces, to, element_counts(from));
    unpack(data.split_with_sizes(to), into);
  });
}

WorkPtr ProcessGroupHccl::send(Tensors& tensors, int destination, int tag) {
  const Call call{"hccl:send", OpType::SEND, c10d::kUnsetTimeout};
  only(call.title, tensors);
  return transfer(call, tensors, [destination, tag](c10d::Backend& gloo, Tensors& bytes) {
    return gloo.send(bytes, destination, tag);
  });
}

WorkPtr ProcessGroupHccl::recv(Tensors& tensors, int source, int tag) {
  const Call call{"hccl:recv", OpType::RECV, c10d::kUnsetTimeout};
  only(call.title, tensors);
  return transfer(call, tensors,
                  [source, tag](c10d::Backend& gloo, Tensors& bytes) { return gloo.recv(bytes, source, tag); });
}

WorkPtr ProcessGroupHccl::recvAnysource(Tensors& tensors, int tag) {
  const Call call{"hccl:recv_any_source", OpType::RECVANYSOURCE, c10d::kUnsetTimeout};
  only(call.title, tensors);
  return transfer(call, tensors, [tag](c10d::Backend& gloo, Tensors& bytes) { return gloo.recvAnysource(bytes, tag); });
}

WorkPtr ProcessGroupHccl::barrier(const c10d::BarrierOptions& options) {
  const Call call{"hccl:barrier", OpType::BARRIER, options.timeout};
  return submit(call, {}, {}, [](const Gloo& gloo, const Tensors&, const Tensors&) { gloo.barrier(); });
}

void ProcessGroupHccl::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const Call call{"hccl:monitored_barrier", OpType::BARRIER, options.timeout};
  const auto job = [backend = gloo_, options, wait_all_ranks](const Gloo&, const Tensors&, const Tensors&) {
    backend->monitoredBarrier(options, wait_all_ranks);
  };
  submit(call, {}, {}, job)->wait();
}

}  // namespace npugraph::distributed
