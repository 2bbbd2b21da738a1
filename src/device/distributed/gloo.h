// SPDX-License-Identifier: Apache-2.0
// Collectives of torch's gloo backend, over CPU tensors of one dimension that have no gaps. Each returns when this
// rank's part is done and raises what gloo raises. Collectives that only move data take tensors of any type.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace npugraph::distributed {

using at::Tensor;

// How elements of one type are reduced.
struct Reduction {
  c10d::ReduceOp::RedOpType op;  // of gloo, on elements of type `carrier`
  at::ScalarType carrier;
  bool average = false;  // divide by the number of ranks; integers round towards zero
};

// c10::Error that names `call` if elements of `type` have no such reduction. Sums of bool are logical.
Reduction reduction_of(const char* call, at::ScalarType type, const c10d::ReduceOp& op);

class Gloo {
 public:
  Gloo(c10::intrusive_ptr<c10d::Backend> backend, std::chrono::milliseconds timeout)
      : backend_(std::move(backend)), timeout_(timeout) {}

  int rank() const { return backend_->getRank(); }
  int size() const { return backend_->getSize(); }

  void broadcast(const Tensor& data, int64_t root) const;
  void all_reduce(const Tensor& data, const Reduction& reduction) const;
  // Leaves the data of other ranks than `root` as it was.
  void reduce(const Tensor& data, int64_t root, const Reduction& reduction) const;

  // Piece r of `out` is the data of rank r; pieces may have different sizes.
  void all_gather(const std::vector<Tensor>& out, const Tensor& data) const;
  void all_gather_equal(const Tensor& out, const Tensor& data) const;
  // `out` is empty on other ranks than `root`.
  void gather(const std::vector<Tensor>& out, const Tensor& data, int64_t root) const;
  void scatter(const Tensor& out, const std::vector<Tensor>& data, int64_t root) const;

  // Rank r gets the reduced pieces `data[r]`.
  void reduce_scatter(const Tensor& out, const std::vector<Tensor>& data, const Reduction& reduction) const;
  void reduce_scatter_equal(const Tensor& out, const Tensor& data, const Reduction& reduction) const;
  // Sizes are numbers of elements for each rank; empty: equal pieces.
  void all_to_all(const Tensor& out, const Tensor& data, std::vector<int64_t> out_sizes,
                  std::vector<int64_t> sizes) const;
  void barrier() const;

 private:
  template <typename Options>
  Options with_timeout() const {
    Options out;
    out.timeout = timeout_;
    return out;
  }

  c10::intrusive_ptr<c10d::Backend> backend_;
  std::chrono::milliseconds timeout_;
};

// A tensor of one dimension and without gaps, as Gloo takes it: over `memory` itself if that has no gaps, else a copy.
Tensor packed(const Tensor& memory);
std::vector<Tensor> packed(const std::vector<Tensor>& memories);
// Copies `packed` back to `memory`, unless they share memory.
void unpack(const Tensor& packed, const Tensor& memory);
void unpack(const std::vector<Tensor>& packed, const std::vector<Tensor>& memories);

}  // namespace npugraph::distributed
