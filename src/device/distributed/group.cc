// SPDX-License-Identifier: Apache-2.0
#include "device/distributed/group.h"

#include <numeric>
#include <utility>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "device/distributed/process_group_hccl.h"
#include "device/npu/facts.h"

namespace npugraph::distributed {
namespace {

// A copy that a collective may write.
Tensor own_copy(const Tensor& data) { return data.clone(at::MemoryFormat::Contiguous); }

Tensor rows_like(const Tensor& data, int64_t rows) {
  std::vector<int64_t> sizes = data.sizes().vec();
  sizes[0] = rows;
  return at::empty(sizes, data.options());
}

c10::intrusive_ptr<c10d::Backend> find(const char* op, const std::string& name) {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  try {
    group = c10d::resolve_process_group(name);
  } catch (const c10::Error&) {
    TORCH_CHECK(ProcessGroupHccl::count() == 0, op, ": hcom '", name,
                "' is no process group of this process; get_hccl_comm_name() of a group's backend gives its name");
    return nullptr;
  }
  return group->getBackend(group->hasBackendForDeviceType(npu::kNpu) ? npu::kNpu : c10::kCPU);
}

}  // namespace

Group::Group(const char* op, const std::string& name, std::optional<int64_t> world_size) : backend_(find(op, name)) {
  TORCH_CHECK(!world_size || *world_size == size(), op, ": the group '", name, "' has ", size(),
              " ranks, but the world size is given as ", *world_size);
}

void Group::barrier() const {
  if (backend_) backend_->barrier()->wait();
}

Tensor Group::all_reduce(const Tensor& data) const {
  if (!backend_) return data;
  std::vector<Tensor> tensors = {own_copy(data)};
  backend_->allreduce(tensors)->wait();
  return tensors[0];
}

Tensor Group::reduce_scatter(const Tensor& data) const {
  if (!backend_) return data;
  Tensor from = data.contiguous();
  Tensor out = rows_like(data, data.size(0) / size());
  backend_->_reduce_scatter_base(out, from)->wait();
  return out;
}

Tensor Group::all_gather(const Tensor& data) const {
  if (!backend_) return data;
  Tensor from = data.contiguous();
  Tensor out = rows_like(data, data.size(0) * size());
  backend_->_allgather_base(out, from)->wait();
  return out;
}

Tensor Group::all_to_all(const Tensor& data, std::vector<int64_t> out_rows, std::vector<int64_t> rows) const {
  if (!backend_) return data;
  Tensor from = data.contiguous();
  const int64_t total = out_rows.empty() ? data.size(0) : std::accumulate(out_rows.begin(), out_rows.end(), int64_t{0});
  Tensor out = rows_like(data, total);
  backend_->alltoall_base(out, from, out_rows, rows)->wait();
  return out;
}

}  // namespace npugraph::distributed
