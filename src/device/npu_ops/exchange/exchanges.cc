// SPDX-License-Identifier: Apache-2.0
// Products before or after all_to_all over the group `hcom`. Products are in float32 and are rounded to the type of
// their factors, in which they travel.
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "device/npu_ops/exchange/exchange_parts.h"
#include "device/npu_ops/families.h"
#include "device/npu_ops/matmul/products.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

using at::IntArrayRef;
using at::OptionalIntArrayRef;
using c10::SymInt;
using distributed::Group;

Tensor rounded_product(const Tensor& x1, const Tensor& x2, const OptionalTensor& bias = std::nullopt) {
  return Product{bias}(x1, x2).to(x1.scalar_type());
}

void check_axes(const char* op, OptionalIntArrayRef axes, IntArrayRef wanted) {
  TORCH_CHECK(!axes || *axes == wanted, op, ": all2all_axes must be ", wanted, ", got ", *axes);
}

void check_floating_factors(const char* op, const Tensor& x1, const Tensor& x2, const SymInt& inner) {
  check_floating(op, "x1", x1);
  check_type(op, "x2", x2, {x1.scalar_type()});
  check_matrices(op, x1, x2, inner);
}

void check_all_to_all_matmul(const Tensor& x1, const Tensor& x2, int64_t world_size, OptionalIntArrayRef axes) {
  constexpr const char* kOp = "npu_all_to_all_matmul";
  check_axes(kOp, axes, {-2, -1});
  check_floating_factors(kOp, x1, x2, x1.sym_size(1) * world_size);
  check_split(kOp, "rows of x1", x1.sym_size(0), world_size);
}

std::tuple<Tensor, Tensor> all_to_all_matmul(const Tensor& x1, const Tensor& x2, std::string_view hcom,
                                             int64_t world_size, const OptionalTensor& bias, OptionalIntArrayRef axes,
                                             bool all2all_out_flag, OptionalString) {
  check_all_to_all_matmul(x1, x2, world_size, axes);
  const Group group("npu_all_to_all_matmul", std::string(hcom), world_size);
  const Tensor wide_rows = rows_to_columns(group, x1);
  return {rounded_product(wide_rows, x2, bias),
          all2all_out_flag ? wide_rows.clone(at::MemoryFormat::Contiguous) : nothing(x1)};
}

std::tuple<Tensor, Tensor> all_to_all_matmul_meta(const Tensor& x1, const Tensor& x2, std::string_view,
                                                  int64_t world_size, const OptionalTensor&, OptionalIntArrayRef axes,
                                                  bool all2all_out_flag, OptionalString) {
  check_all_to_all_matmul(x1, x2, world_size, axes);
  const SymInt rows = x1.sym_size(0) / world_size;
  return {x1.new_empty_symint({rows, x2.sym_size(1)}),
          all2all_out_flag ? x1.new_empty_symint({rows, x1.sym_size(1) * world_size}) : nothing(x1)};
}

void check_matmul_all_to_all(const Tensor& x1, const Tensor& x2, int64_t world_size, OptionalIntArrayRef axes) {
  constexpr const char* kOp = "npu_matmul_all_to_all";
  check_axes(kOp, axes, {-1, -2});
  check_floating_factors(kOp, x1, x2, x1.sym_size(1));
  check_split(kOp, "columns of x2", x2.sym_size(1), world_size);
}

Tensor matmul_all_to_all(const Tensor& x1, const Tensor& x2, std::string_view hcom, int64_t world_size,
                         const OptionalTensor& bias, OptionalIntArrayRef axes, OptionalString) {
  check_matmul_all_to_all(x1, x2, world_size, axes);
  const Group group("npu_matmul_all_to_all", std::string(hcom), world_size);
  return columns_to_rows(group, rounded_product(x1, x2, bias));
}

Tensor matmul_all_to_all_meta(const Tensor& x1, const Tensor& x2, std::string_view, int64_t world_size,
                              const OptionalTensor&, OptionalIntArrayRef axes, OptionalString) {
  check_matmul_all_to_all(x1, x2, world_size, axes);
  return x1.new_empty_symint({x1.sym_size(0) * world_size, x2.sym_size(1) / world_size});
}

// Multiplies the next rows[e] rows by weight[e], for each expert e.
Tensor grouped_product(const Tensor& x, const Tensor& weight, const std::vector<int64_t>& rows) {
  const std::vector<Tensor> pieces = x.split_with_sizes(rows);
  std::vector<Tensor> out;
  for (size_t expert = 0; expert < rows.size(); ++expert)
    out.push_back(rounded_product(pieces[expert], weight[static_cast<int64_t>(expert)]));
  return at::cat(out);
}

void check_grouped(const char* op, const Tensor& x, const Tensor& weight, bool transposed, const OptionalTensor& mm_x,
                   const OptionalTensor& mm_weight, bool has_count_tensors) {
  check_floating(op, "gmm_x", x);
  check_type(op, "gmm_weight", weight, {x.scalar_type()});
  check_dims(op, "gmm_x", x, 2, 2);
  check_dims(op, "gmm_weight", weight, 3, 3);
  const SymInt inner = transposed_if(weight, transposed).sym_size(1);
  TORCH_CHECK(x.sym_size(1) == inner, op, ": gmm_x must have the ", inner, " columns that gmm_weight takes, got ",
              x.sym_size(1));
  TORCH_CHECK(given(mm_x) == given(mm_weight), op, ": mm_x and mm_weight come together");
  TORCH_CHECK_NOT_IMPLEMENTED(!has_count_tensors, op, ": takes counts as lists, not as tensors");
}

Tensor shared_product(const Tensor& x, const OptionalTensor& mm_x, const OptionalTensor& mm_weight, bool transposed) {
  return given(mm_x) ? rounded_product(*mm_x, transposed_if(*mm_weight, transposed)) : nothing(x);
}

Tensor shared_product_meta(const Tensor& x, const OptionalTensor& mm_x, const OptionalTensor& mm_weight,
                           bool transposed) {
  if (!given(mm_x)) return nothing(x);
  return x.new_empty_symint({mm_x->sym_size(0), transposed_if(*mm_weight, transposed).sym_size(1)});
}

std::tuple<Tensor, Tensor, Tensor> alltoallv_gmm(const Tensor& x, const Tensor& weight, std::string_view hcom,
                                                 int64_t ranks, IntArrayRef send_counts, IntArrayRef recv_counts,
                                                 const OptionalTensor& send_tensor, const OptionalTensor& recv_tensor,
                                                 const OptionalTensor& mm_x, const OptionalTensor& mm_weight,
                                                 bool trans_gmm_weight, bool trans_mm_weight, bool permute_out_flag,
                                                 OptionalString) {
  constexpr const char* kOp = "npu_alltoallv_gmm";
  check_grouped(kOp, x, weight, trans_gmm_weight, mm_x, mm_weight, given(send_tensor) || given(recv_tensor));
  const ExpertRoutes routes(kOp, hcom, weight, ranks, send_counts, recv_counts);
  const Tensor rows = routes.to_experts(x);
  return {grouped_product(rows, transposed_if(weight, trans_gmm_weight), routes.received().of_experts()),
          shared_product(x, mm_x, mm_weight, trans_mm_weight), permute_out_flag ? rows : nothing(x)};
}

std::tuple<Tensor, Tensor, Tensor> alltoallv_gmm_meta(const Tensor& x, const Tensor& weight, std::string_view,
                                                      int64_t ranks, IntArrayRef, IntArrayRef recv_counts,
                                                      const OptionalTensor& send_tensor,
                                                      const OptionalTensor& recv_tensor, const OptionalTensor& mm_x,
                                                      const OptionalTensor& mm_weight, bool trans_gmm_weight,
                                                      bool trans_mm_weight, bool permute_out_flag, OptionalString) {
  constexpr const char* kOp = "npu_alltoallv_gmm";
  check_grouped(kOp, x, weight, trans_gmm_weight, mm_x, mm_weight, given(send_tensor) || given(recv_tensor));
  const SymInt rows = received_rows(kOp, weight, ranks, recv_counts);
  return {x.new_empty_symint({rows, transposed_if(weight, trans_gmm_weight).sym_size(2)}),
          shared_product_meta(x, mm_x, mm_weight, trans_mm_weight),
          permute_out_flag ? x.new_empty_symint({rows, x.sym_size(1)}) : nothing(x)};
}

std::tuple<Tensor, Tensor> gmm_alltoallv(const Tensor& x, const Tensor& weight, std::string_view hcom, int64_t ranks,
                                         IntArrayRef send_counts, IntArrayRef recv_counts,
                                         const OptionalTensor& send_tensor, const OptionalTensor& recv_tensor,
                                         const OptionalTensor& mm_x, const OptionalTensor& mm_weight,
                                         bool trans_gmm_weight, bool trans_mm_weight, OptionalString) {
  constexpr const char* kOp = "npu_gmm_alltoallv";
  check_grouped(kOp, x, weight, trans_gmm_weight, mm_x, mm_weight, given(send_tensor) || given(recv_tensor));
  const ExpertRoutes routes(kOp, hcom, weight, ranks, send_counts, recv_counts);
  const Tensor rows = grouped_product(x, transposed_if(weight, trans_gmm_weight), routes.sent().of_experts());
  return {routes.to_ranks(rows), shared_product(x, mm_x, mm_weight, trans_mm_weight)};
}

std::tuple<Tensor, Tensor> gmm_alltoallv_meta(const Tensor& x, const Tensor& weight, std::string_view, int64_t ranks,
                                              IntArrayRef, IntArrayRef recv_counts, const OptionalTensor& send_tensor,
                                              const OptionalTensor& recv_tensor, const OptionalTensor& mm_x,
                                              const OptionalTensor& mm_weight, bool trans_gmm_weight,
                                              bool trans_mm_weight, OptionalString) {
  constexpr const char* kOp = "npu_gmm_alltoallv";
  check_grouped(kOp, x, weight, trans_gmm_weight, mm_x, mm_weight, given(send_tensor) || given(recv_tensor));
  const SymInt rows = received_rows(kOp, weight, ranks, recv_counts);
  return {x.new_empty_symint({rows, transposed_if(weight, trans_gmm_weight).sym_size(2)}),
          shared_product_meta(x, mm_x, mm_weight, trans_mm_weight)};
}

Tensor distribute_barrier(const Tensor& x_ref, std::string_view group, int64_t world_size, const OptionalTensor&,
                          const OptionalTensor& elastic_info) {
  check_absent("_npu_distribute_barrier", "elastic_info", given(elastic_info));
  Group("_npu_distribute_barrier", std::string(group), world_size).barrier();
  return x_ref.clone();
}

Tensor distribute_barrier_meta(const Tensor& x_ref, std::string_view, int64_t, const OptionalTensor&,
                               const OptionalTensor&) {
  return at::empty_like(x_ref);
}

}  // namespace

void define_exchanges(OperatorLibrary& library) {
  library.add({
      .schema = "npu::_npu_distribute_barrier(Tensor x_ref, str group, int world_size, *, Tensor? time_out=None, "
                "Tensor? elastic_info=None) -> Tensor",
      .kernel = whole(&distribute_barrier, &distribute_barrier_meta),
      .definition = "Waits until all ranks of the process group have called it and returns a copy of x_ref. The "
                    "timeout is that of the group: time_out is ignored. elastic_info raises NotImplementedError.",
  });
  library.add({
      .schema = "npu::npu_all_to_all_matmul(Tensor x1, Tensor x2, str hcom, int world_size, Tensor? bias=None, int[]? "
                "all2all_axes=None, bool all2all_out_flag=True, str? comm_mode=None) -> (Tensor, Tensor)",
      .kernel = whole(&all_to_all_matmul, &all_to_all_matmul_meta),
      .definition = "All-to-all over the process group hcom, then a GEMM: y = all2all_out @ x2 + bias, in float32. The "
                    "r-th of world_size equal pieces of the rows of x1 goes to rank r, and the piece that comes from "
                    "rank r becomes the r-th piece of the columns of all2all_out. x1 is [M, K], x2 is [K * world_size, "
                    "N] in the type of x1, bias is [N]. Results: y [M / world_size, N] and all2all_out [M / "
                    "world_size, K * world_size], empty if all2all_out_flag is False, both in the type of x1. "
                    "all2all_axes is None or [-2, -1]; comm_mode is ignored.",
  });
  library.add({
      .schema = "npu::npu_alltoallv_gmm(Tensor gmm_x, Tensor gmm_weight, str hcom, int ep_world_size, int[] "
                "send_counts, int[] recv_counts, *, Tensor? send_counts_tensor=None, Tensor? recv_counts_tensor=None, "
                "Tensor? mm_x=None, Tensor? mm_weight=None, bool trans_gmm_weight=False, bool trans_mm_weight=False, "
                "bool permute_out_flag=False, str? comm_mode=None) -> (Tensor, Tensor, Tensor)",
      .kernel = whole(&alltoallv_gmm, &alltoallv_gmm_meta),
      .definition = "All-to-all that sends tokens to the ranks of their experts, then a grouped GEMM of each local "
                    "expert with its weight. gmm_x is [rows, H], ordered by destination rank, then expert; gmm_weight "
                    "is [E, H, N], or [E, N, H] with trans_gmm_weight, for E local experts. send_counts[rank * E + e] "
                    "rows go to expert e of that rank, and recv_counts[rank * E + e] rows come from that rank for "
                    "local expert e. Results, in the type of gmm_x: gmm_y, the products of the rows that came, ordered "
                    "by expert, then source rank; mm_y = mm_x @ mm_weight, transposed with trans_mm_weight, for a "
                    "shared expert, empty without mm_x; and the rows that came, empty if permute_out_flag is False. "
                    "send_counts_tensor and recv_counts_tensor raise NotImplementedError; comm_mode is ignored.",
  });
  library.add({
      .schema = "npu::npu_gmm_alltoallv(Tensor gmm_x, Tensor gmm_weight, str hcom, int ep_world_size, int[] "
                "send_counts, int[] recv_counts, *, Tensor? send_counts_tensor=None, Tensor? recv_counts_tensor=None, "
                "Tensor? mm_x=None, Tensor? mm_weight=None, bool trans_gmm_weight=False, bool trans_mm_weight=False, "
                "str? comm_mode=None) -> (Tensor, Tensor)",
      .kernel = whole(&gmm_alltoallv, &gmm_alltoallv_meta),
      .definition = "Reverse of npu_alltoallv_gmm: a grouped GEMM of each local expert, then an all-to-all that sends "
                    "the products to the ranks of their tokens. gmm_x is ordered by local expert, then destination "
                    "rank; send_counts[rank * E + e] rows of expert e go to that rank, and recv_counts[rank * E + e] "
                    "rows come from expert e of that rank. Results: the rows that came, ordered by rank, then expert; "
                    "and mm_y = mm_x @ mm_weight. The other arguments are those of npu_alltoallv_gmm.",
  });
  library.add({
      .schema = "npu::npu_matmul_all_to_all(Tensor x1, Tensor x2, str hcom, int world_size, Tensor? bias=None, int[]? "
                "all2all_axes=None, str? comm_mode=None) -> Tensor",
      .kernel = whole(&matmul_all_to_all, &matmul_all_to_all_meta),
      .definition = "GEMM, then an all-to-all over the process group hcom. The product x1 @ x2 + bias is computed in "
                    "float32 and rounded to the type of x1; the r-th of world_size equal pieces of its columns goes to "
                    "rank r, and the pieces that come from all ranks follow each other along the rows. x1 is [M, K], "
                    "x2 is [K, N] in the type of x1, bias is [N]. The result is [M * world_size, N / world_size]. "
                    "all2all_axes is None or [-1, -2]; comm_mode is ignored.",
  });
}

}  // namespace npugraph::npu_ops
