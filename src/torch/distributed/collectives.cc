// SPDX-License-Identifier: Apache-2.0
// What each collective asks of its tensors, and its parts in gloo's collectives.
#include <numeric>
#include <utility>

#include "torch/distributed/process_group_hccl.h"
#include "torch/npu/tensor.h"

namespace npugraph::distributed {
namespace {

using c10d::OpType;

// The host's memory of a tensor.
Tensor memory_of(const char* call, const Tensor& tensor) {
  TORCH_CHECK(tensor.layout() == at::kStrided, call, ": takes dense tensors, got layout ", tensor.layout());
  if (tensor.device().is_cpu()) return tensor.detach();
  TORCH_CHECK(npu::is_host_memory(tensor.device()), call, ": takes tensors of npu, got one of ", tensor.device());
  return npu::cpu_alias(tensor);
}

Tensors memories_of(const char* call, const Tensors& tensors) {
  Tensors out;
  for (const Tensor& tensor : tensors) out.push_back(memory_of(call, tensor));
  return out;
}

template <typename T>
T& only(const char* call, std::vector<T>& items) {
  TORCH_CHECK(items.size() == 1, call, ": takes one tensor, or one list of tensors, per rank, got ", items.size());
  return items[0];
}

void check_same_type(const char* call, const Tensor& output, const Tensor& input) {
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), call, ": output and input must have one type, got ",
              output.scalar_type(), " and ", input.scalar_type());
}

// One tensor for each rank, of the type of `single`.
void check_list(const char* call, const Tensors& list, const Tensor& single, int size) {
  TORCH_CHECK(list.size() == static_cast<size_t>(size), call, ": takes a list of ", size, " tensors, got ",
              list.size());
  for (const Tensor& tensor : list) check_same_type(call, tensor, single);
}

// `large` holds `size` times `small`.
void check_multiple(const char* call, const char* large_name, const Tensor& large, const Tensor& small, int size) {
  check_same_type(call, large, small);
  TORCH_CHECK(large.numel() == small.numel() * size, call, ": ", large_name, " must have ", small.numel(), " * ", size,
              " elements, got ", large.numel());
}

void check_elements(const char* call, int rank, const Tensor& piece, const Tensor& single) {
  TORCH_CHECK(piece.numel() == single.numel(), call, ": tensor ", rank, " of the list must have the ", single.numel(),
              " elements of this rank's tensor, got ", piece.numel());
}

// One tensor for each rank, of the type of `single` and with as many elements.
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

Tensors flattened(const std::vector<Tensors>& lists) {
  Tensors out;
  for (const Tensors& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
}

}  // namespace

WorkPtr ProcessGroupHccl::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const Call call{"hccl:broadcast", OpType::BROADCAST, options.timeout};
  const Tensor memory = memory_of(call.title, only(call.title, tensors));
  return submit(call, tensors, tensors, [memory, root = options.rootRank](const Gloo& gloo) {
    const Tensor data = packed(memory);
    gloo.broadcast(data, root);
    unpack(data, memory);
  });
}

WorkPtr ProcessGroupHccl::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Call call{"hccl:all_reduce", OpType::ALLREDUCE, options.timeout};
  const Tensor memory = memory_of(call.title, only(call.title, tensors));
  const Reduction reduction = reduction_of(call.title, memory.scalar_type(), options.reduceOp);
  return submit(call, tensors, tensors, [memory, reduction](const Gloo& gloo) {
    const Tensor data = packed(memory);
    gloo.all_reduce(data, reduction);
    unpack(data, memory);
  });
}

WorkPtr ProcessGroupHccl::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  const Call call{"hccl:all_reduce_coalesced", OpType::ALLREDUCE_COALESCED, options.timeout};
  const Tensors memories = memories_of(call.title, tensors);
  std::vector<Reduction> reductions;
  for (const Tensor& memory : memories)
    reductions.push_back(reduction_of(call.title, memory.scalar_type(), options.reduceOp));
  return submit(call, tensors, tensors, [memories, reductions](const Gloo& gloo) {
    for (size_t i = 0; i < memories.size(); ++i) {
      const Tensor data = packed(memories[i]);
      gloo.all_reduce(data, reductions[i]);
      unpack(data, memories[i]);
    }
  });
}

WorkPtr ProcessGroupHccl::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const Call call{"hccl:reduce", OpType::REDUCE, options.timeout};
  const Tensor memory = memory_of(call.title, only(call.title, tensors));
  const Reduction reduction = reduction_of(call.title, memory.scalar_type(), options.reduceOp);
  return submit(call, tensors, tensors, [memory, reduction, root = options.rootRank](const Gloo& gloo) {
    const Tensor data = packed(memory);
    gloo.reduce(data, root, reduction);
    unpack(data, memory);
  });
}

WorkPtr ProcessGroupHccl::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions& options) {
  const Call call{"hccl:all_gather", OpType::ALLGATHER, options.timeout};
  const Tensor& input = only(call.title, inputs);
  const Tensors& list = only(call.title, outputs);
  check_list(call.title, list, input, getSize());
  check_elements(call.title, getRank(), list[getRank()], input);
  const Tensor memory = memory_of(call.title, input);
  const Tensors into = memories_of(call.title, list);
  return submit(call, inputs, list, [memory, into](const Gloo& gloo) {
    const Tensors data = packed(into);
    gloo.all_gather(data, packed(memory));
    unpack(data, into);
  });
}

WorkPtr ProcessGroupHccl::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  const Call call{"hccl:all_gather_coalesced", OpType::ALLGATHER_COALESCED, options.timeout};
  TORCH_CHECK(outputs.size() == static_cast<size_t>(getSize()), call.title, ": takes ", getSize(),
              " lists of tensors, got ", outputs.size());
  std::vector<Tensors> into(inputs.size());
  for (const Tensors& list : outputs) {
    TORCH_CHECK(list.size() == inputs.size(), call.title, ": each list must have ", inputs.size(), " tensors, got ",
                list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      check_multiple(call.title, "each output", list[i], inputs[i], 1);
      into[i].push_back(memory_of(call.title, list[i]));
    }
  }
  return submit(call, inputs, flattened(outputs), [memories = memories_of(call.title, inputs), into](const Gloo& gloo) {
    for (size_t i = 0; i < memories.size(); ++i) {
      const Tensors data = packed(into[i]);
      gloo.all_gather(data, packed(memories[i]));
      unpack(data, into[i]);
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
  return submit(
      call, inputs, outputs,
      [memories = memories_of(call.title, inputs), into = memories_of(call.title, outputs)](const Gloo& gloo) {
        for (size_t i = 0; i < memories.size(); ++i) {
          const Tensor data = packed(into[i]);
          gloo.all_gather_equal(data, packed(memories[i]));
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
                [memory = memory_of(call.title, input), into = memories_of(call.title, list),
                 root = options.rootRank](const Gloo& gloo) {
                  const Tensors data = packed(into);
                  gloo.gather(data, packed(memory), root);
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
                [memory = memory_of(call.title, output), from = memories_of(call.title, list),
                 root = options.rootRank](const Gloo& gloo) {
                  const Tensor data = packed(memory);
                  gloo.scatter(data, packed(from), root);
                  unpack(data, memory);
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
  return submit(
      call, list, outputs,
      [memory = memory_of(call.title, output), from = memories_of(call.title, list), reduction](const Gloo& gloo) {
        const Tensor data = packed(memory);
        gloo.reduce_scatter(data, packed(from), reduction);
        unpack(data, memory);
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
  std::vector<Reduction> reductions;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_multiple(call.title, "the input", inputs[i], outputs[i], getSize());
    reductions.push_back(reduction_of(call.title, inputs[i].scalar_type(), options.reduceOp));
  }
  return submit(call, inputs, outputs,
                [memories = memories_of(call.title, inputs), into = memories_of(call.title, outputs),
                 reductions](const Gloo& gloo) {
                  for (size_t i = 0; i < memories.size(); ++i) {
                    const Tensor data = packed(into[i]);
                    gloo.reduce_scatter_equal(data, packed(memories[i]), reductions[i]);
                    unpack(data, into[i]);
                  }
                });
}

WorkPtr ProcessGroupHccl::alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& output_sizes,
                                        std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) {
  const Call call{"hccl:all_to_all_single", OpType::ALLTOALL_BASE, options.timeout};
  check_same_type(call.title, output, input);
  auto to = elements_of(call.title, "output", output, output_sizes, getSize());
  auto from = elements_of(call.title, "input", input, input_sizes, getSize());
  return submit(
      call, {input}, {output},
      [memory = memory_of(call.title, input), into = memory_of(call.title, output), to, from](const Gloo& gloo) {
        const Tensor data = packed(into);
        gloo.all_to_all(data, packed(memory), to, from);
        unpack(data, into);
      });
}

WorkPtr ProcessGroupHccl::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  const Call call{"hccl:all_to_all", OpType::ALLTOALL, options.timeout};
  TORCH_CHECK(!inputs.empty(), call.title, ": takes a list of ", getSize(), " tensors, got 0");
  check_list(call.title, inputs, inputs[0], getSize());
  check_list(call.title, outputs, inputs[0], getSize());
  check_elements(call.title, getRank(), outputs[getRank()], inputs[getRank()]);
  return submit(
      call, inputs, outputs,
      [memories = memories_of(call.title, inputs), into = memories_of(call.title, outputs)](const Gloo& gloo) {
        const std::vector<int64_t> to = element_counts(into);
        const Tensor from = at::cat(packed(memories));
        const Tensor data = at::empty({std::accumulate(to.begin(), to.end(), int64_t{0})}, from.options());
        gloo.all_to_all(data, from, to, element_counts(memories));
        unpack(data.split_with_sizes(to), into);
      });
}

WorkPtr ProcessGroupHccl::send(Tensors& tensors, int destination, int tag) {
  const Call call{"hccl:send", OpType::SEND, c10d::kUnsetTimeout};
  const Tensor memory = memory_of(call.title, only(call.title, tensors));
  const Tensor data = packed(memory);
  return transfer(call, tensors[0], {data, memory}, [&] {
    Tensors bytes = {data.view(at::kByte)};
    return gloo_->send(bytes, destination, tag);
  });
}

WorkPtr ProcessGroupHccl::recv(Tensors& tensors, int source, int tag) {
  const Call call{"hccl:recv", OpType::RECV, c10d::kUnsetTimeout};
  return receive(tensors, source, tag, call);
}

WorkPtr ProcessGroupHccl::recvAnysource(Tensors& tensors, int tag) {
  const Call call{"hccl:recv_any_source", OpType::RECVANYSOURCE, c10d::kUnsetTimeout};
  return receive(tensors, -1, tag, call);
}

WorkPtr ProcessGroupHccl::receive(Tensors& tensors, int source, int tag, const Call& call) {
  const Tensor memory = memory_of(call.title, only(call.title, tensors));
  const Tensor data = packed(memory);
  return transfer(call, tensors[0], {data, memory}, [&] {
    Tensors bytes = {data.view(at::kByte)};
    return source < 0 ? gloo_->recvAnysource(bytes, tag) : gloo_->recv(bytes, source, tag);
  });
}

WorkPtr ProcessGroupHccl::barrier(const c10d::BarrierOptions& options) {
  const Call call{"hccl:barrier", OpType::BARRIER, options.timeout};
  return submit(call, {}, {}, [](const Gloo& gloo) { gloo.barrier(); });
}

void ProcessGroupHccl::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const Call call{"hccl:monitored_barrier", OpType::BARRIER, options.timeout};
  submit(call, {}, {}, [backend = gloo_, options, wait_all_ranks](const Gloo&) {
    backend->monitoredBarrier(options, wait_all_ranks);
  })->wait();
}

}  // namespace npugraph::distributed
