// SPDX-License-Identifier: Apache-2.0
// The backend "hccl" of torch.distributed: collectives over npu tensors, which are memory of this host, by gloo.
//
// Collectives of a group run one after the other on a thread of the group, in the order of the calls, so a later one
// sees the results of earlier ones. Transfers from rank to rank start at once and end in any order. Every call returns
// when it has checked its arguments. Tensors may have any strides; those with gaps are copied. Thread-safe, but the
// order of calls must be the same on all ranks. In a stream that is captured for a graph, a call becomes a part of the
// graph: each replay calls it again, as long as the group exists.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "device/distributed/gloo.h"
#include "device/distributed/group_thread.h"
#include "device/npu/collective_recorder.h"

namespace npugraph::distributed {

// The handle of a collective or transfer of a process group.
class HcclWork final : public c10d::Work {
 public:
  // `title` is the name in profiles and must have static lifetime. The tensors are those that the caller passed.
  HcclWork(int rank, c10d::OpType type, const char* title, uint64_t sequence, const std::vector<at::Tensor>& inputs,
           std::vector<at::Tensor> outputs);

  // Makes it part of a captured graph: wait() also awaits `calls` there. To be called before others have this object.
  using Recorded = std::vector<std::shared_ptr<const npu::RecordedCollective>>;
  void be_recorded(const Recorded& calls);
  const Recorded& recorded() const { return recorded_; }

  // Ends it, with `error` if that is not null, and runs the callbacks of the future. To be called once, in any thread.
  void complete(std::exception_ptr error, int source_rank = -1);

  bool isCompleted() override { return future_->completed(); }
  bool isSuccess() const override { return future_->completed() && !future_->hasError(); }
  // When it returns, the future is completed, too. A timeout of 0 means no timeout.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  int sourceRank() const override { return source_rank_; }
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  uint64_t getSequencenumber() const override { return sequence_; }

 private:
  const char* title_;
  uint64_t sequence_;
  std::vector<at::Tensor> outputs_;
  Recorded recorded_;
  int source_rank_ = -1;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

using c10d::Work;
using WorkPtr = c10::intrusive_ptr<Work>;
using Tensors = std::vector<Tensor>;

class ProcessGroupHccl final : public c10d::Backend {
 public:
  using Setting = std::variant<bool, int64_t, double, std::string>;

  // Settings of Ascend's communicators are kept and have no effect here.
  struct Options : c10d::Backend::Options {
    explicit Options(bool is_high_priority_stream)
        : c10d::Backend::Options("hccl"), is_high_priority_stream(is_high_priority_stream) {}

    bool is_high_priority_stream;
    std::unordered_map<std::string, Setting> hccl_config;
    std::chrono::milliseconds op_timeout = timeout;
    std::string group_id;
  };

  static c10::intrusive_ptr<ProcessGroupHccl> create(c10::intrusive_ptr<c10d::Store> store,
                                                     c10::intrusive_ptr<c10d::Backend> gloo,
                                                     c10::intrusive_ptr<Options> options);
  // For create(). `gloo` connects the ranks of the group, which met in `store`; the group owns it from here on.
  ProcessGroupHccl(c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::Backend> gloo,
                   c10::intrusive_ptr<Options> options);
  ~ProcessGroupHccl() override;

  void release_resources() override { end(); }  // called when only weak references remain

  // Number of groups in this process.
  static int count() noexcept;
  // Calls shutdown() of all groups. To be called without the GIL before the interpreter ends: callbacks in Python and
  // tensors that Python has seen take the GIL when a collective ends, and a thread that requests it while the
  // interpreter ends is terminated, which nothing on its stack survives. Waits as long as a collective may take, as the
  // destructor does.
  static void shutdown_all();

  const std::string getBackendName() const override { return "hccl"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  const c10::intrusive_ptr<Options>& options() const { return options_; }
  // The name of this group for operators that communicate, under which torch.distributed finds it.
  const std::string& comm_name() const { return options_->group_id; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }
  // Ends the calls under way as shutdown() does, then uses the connections of `gloo`. Not while another thread calls.
  void reconnect(c10::intrusive_ptr<c10d::Backend> gloo);
  int reconnections() const { return reconnections_; }
  // Waits for the collectives under way and aborts transfers.
  void shutdown() override;
  void abort() override { transfers_.abort(); }

  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options) override;

  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(Tensor& output, Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(Tensor& output, Tensor& input, const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

 private:
  // One call of a collective.
  struct Call {
    const char* title;  // for profiles and messages; a literal
    c10d::OpType type;
    std::chrono::milliseconds timeout;  // as its options say
  };
  // Runs a collective on the group's thread, with CPU tensors over the memory of its inputs and outputs.
  using Job = std::function<void(const Gloo& gloo, const Tensors& from, const Tensors& into)>;
  // Begins a transfer of the bytes of one tensor.
  using Transfer = std::function<WorkPtr(c10d::Backend& gloo, Tensors& bytes)>;
  using HcclWorkPtr = c10::intrusive_ptr<HcclWork>;
  // Begins a call, on npu or CPU tensors.
  using Begin = std::function<HcclWorkPtr(ProcessGroupHccl& group, const Tensors& inputs, const Tensors& outputs)>;

  // Collectives that work in place pass their tensors only as outputs.
  WorkPtr submit(const Call& call, const Tensors& inputs, const Tensors& outputs, const Job& job);
  WorkPtr transfer(const Call& call, const Tensors& tensors, const Transfer& begin);
  // Begins the call, and records it if its stream is captured.
  WorkPtr start(const Call& call, const Tensors& inputs, const Tensors& outputs, const Begin& begin);
  HcclWorkPtr run_job(const Call& call, const Tensors& inputs, const Tensors& outputs, const Job& job);
  HcclWorkPtr run_transfer(const Call& call, const Tensors& tensors, const Transfer& begin);
  HcclWorkPtr make_work(const Call& call, const Tensors& inputs, const Tensors& outputs);
  void end();
  std::chrono::milliseconds effective(std::chrono::milliseconds timeout) const;
  // "hccl:all_reduce (call 3 of group '0', rank 0 of 2, timeout 1000 ms)"
  std::string description(const Call& call, uint64_t sequence) const;

  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Backend> gloo_;
  c10::intrusive_ptr<Options> options_;
  int reconnections_ = 0;
  std::atomic<uint64_t> sequence_ = 0;
  std::mutex coalescing_mutex_;
  bool coalescing_ = false;
  std::vector<c10::intrusive_ptr<HcclWork>> coalesced_;
  Transfers transfers_;
  std::optional<GroupThread> group_thread_;  // nullopt after end()
};

}  // namespace npugraph::distributed
