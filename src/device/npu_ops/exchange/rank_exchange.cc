// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/exchange/rank_exchange.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "device/distributed/group.h"
#include "device/npu_ops/framework/call_arguments.h"

namespace npugraph::npu_ops {
namespace {

using c10::SymInt;
using distributed::Group;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Text = c10::string_view;

constexpr const char* kSchema =
    "exchange_rows(Tensor[] rows, Tensor counts, SymInt places, SymInt? agreed, str op, str group, int size, int rank) "
    "-> Tensor[]";

// The counts of all ranks for this one. `agreed`, which must be the same on all ranks, is sent with them.
Tensor exchange_counts(const Group& group, const std::string& op, const Tensor& counts, const OptionalSymInt& agreed) {
  const int64_t ours = agreed ? agreed->expect_int() : 0;
  const Tensor whole = counts.to(at::kLong);
  const Tensor arrived = group.all_to_all(at::cat({whole, whole.new_full({whole.size(0), 1}, ours)}, 1));
  const std::vector<int64_t> theirs = values_of(arrived.select(1, -1));
  TORCH_CHECK(std::all_of(theirs.begin(), theirs.end(), [&](int64_t other) { return other == ours; }), op,
              ": ranks make place for different numbers of tokens, ", at::IntArrayRef(theirs),
              ": global_bs must be the same on all, and not 0 where they have different numbers");
  return arrived.narrow(1, 0, counts.size(1)).contiguous();
}

Tensor exchange_one(const Group& group, const Tensor& rows, const std::vector<int64_t>& sent,
                    const std::vector<int64_t>& received, int64_t places) {
  const int64_t going = std::accumulate(sent.begin(), sent.end(), int64_t{0});
  const Tensor arrived = group.all_to_all(rows.narrow(0, 0, going), received, sent);
  std::vector<int64_t> sizes = rows.sizes().vec();
  sizes[0] = places;
  Tensor out = at::zeros(sizes, rows.options());
  out.narrow(0, 0, arrived.size(0)).copy_(arrived);
  return out;
}

std::vector<Tensor> exchange_rows(at::TensorList rows, const Tensor& counts, SymInt places, OptionalSymInt agreed,
                                  Text op, Text name, int64_t size, int64_t rank) {
  const std::string title(op);
  const Group group(title.c_str(), std::string(name), size);
  TORCH_CHECK(group.rank() == rank, title, ": this process is rank ", group.rank(), " of the group '", name,
              "', but its rank is given as ", rank);
  const Tensor their_counts = exchange_counts(group, title, counts, agreed);
  const std::vector<int64_t> sent = values_of(counts.sum(1)), received = values_of(their_counts.sum(1));
  const int64_t arriving = std::accumulate(received.begin(), received.end(), int64_t{0}), most = places.expect_int();
  TORCH_CHECK(arriving <= most, title, ": ", arriving, " rows come to rank ", rank, ", which has ", most, " places");
  std::vector<Tensor> out;
  for (const Tensor& one : rows) out.push_back(exchange_one(group, one, sent, received, most));
  out.push_back(their_counts);
  return out;
}

std::vector<Tensor> exchange_rows_meta(at::TensorList rows, const Tensor& counts, SymInt places, OptionalSymInt, Text,
                                       Text, int64_t, int64_t) {
  std::vector<Tensor> out;
  for (const Tensor& one : rows) {
    std::vector<SymInt> sizes = one.sym_sizes().vec();
    sizes[0] = places;
    out.push_back(one.new_empty_symint(sizes));
  }
  out.push_back(counts.new_empty_symint(counts.sym_sizes(), at::kLong));
  return out;
}

std::vector<Tensor> call(at::TensorList rows, const Tensor& counts, SymInt places, OptionalSymInt agreed, Text op,
                         Text group, int64_t size, int64_t rank) {
  static const auto handle =
      c10::Dispatcher::singleton().findSchemaOrThrow("npugraph::exchange_rows", "").typed<decltype(exchange_rows)>();
  return handle.call(rows, counts, std::move(places), std::move(agreed), op, group, size, rank);
}

struct Differentiable : torch::autograd::Function<Differentiable> {
  static variable_list forward(AutogradContext* context, at::TensorList rows, const Tensor& counts, SymInt places,
                               OptionalSymInt agreed, const std::string& op, const std::string& group, int64_t size,
                               int64_t rank) {
    context->saved_data["rows"] = rows[0].sym_size(0);
    context->saved_data["op"] = op;
    context->saved_data["group"] = group;
    context->saved_data["size"] = size;
    context->saved_data["rank"] = rank;
    const at::AutoDispatchBelowADInplaceOrView below;
    variable_list out = call(rows, counts, std::move(places), std::move(agreed), op, group, size, rank);
    context->save_for_backward({out.back()});
    return out;
  }

  // All ranks exchange gradients of the same rows, those of all floating types.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    std::vector<size_t> places;
    variable_list there;
    for (size_t i = 0; i + 1 < gradients.size(); ++i) {
      if (!gradients[i].defined() || !gradients[i].is_floating_point()) continue;
      places.push_back(i);
      there.push_back(gradients[i]);
    }
    auto& saved = context->saved_data;
    const std::vector<Tensor> back =
        call(there, context->get_saved_variables()[0], saved["rows"].toSymInt(), std::nullopt,
             saved["op"].toStringView(), saved["group"].toStringView(), saved["size"].toInt(), saved["rank"].toInt());
    constexpr size_t kOtherArguments = 7;
    variable_list out(gradients.size() - 1 + kOtherArguments);
    for (size_t i = 0; i < places.size(); ++i) out[places[i]] = back[i];
    return out;
  }
};

std::vector<Tensor> exchange_rows_differentiable(at::TensorList rows, const Tensor& counts, SymInt places,
                                                 OptionalSymInt agreed, Text op, Text group, int64_t size,
                                                 int64_t rank) {
  return Differentiable::apply(rows, counts, std::move(places), std::move(agreed), std::string(op), std::string(group),
                               size, rank);
}

}  // namespace

Arrived exchanged(const RankGroup& ranks, std::vector<Tensor> rows, const Tensor& counts, const SymInt& places,
                  OptionalSymInt agreed) {
  std::vector<Tensor> out = call(rows, counts, places, std::move(agreed), ranks.op, ranks.name, ranks.size, ranks.rank);
  Tensor their_counts = std::move(out.back());
  out.pop_back();
  return {std::move(out), std::move(their_counts)};
}

void register_rank_exchange() {
  using torch::Library;
  static auto* schema = new Library(Library::FRAGMENT, "npugraph", std::nullopt, __FILE__, __LINE__);
  static auto* cpu = new Library(Library::IMPL, "npugraph", c10::DispatchKey::CPU, __FILE__, __LINE__);
  static auto* meta = new Library(Library::IMPL, "npugraph", c10::DispatchKey::Meta, __FILE__, __LINE__);
  static auto* autograd = new Library(Library::IMPL, "npugraph", c10::DispatchKey::Autograd, __FILE__, __LINE__);
  schema->def(kSchema);
  cpu->impl("exchange_rows", &exchange_rows);
  meta->impl("exchange_rows", &exchange_rows_meta);
  autograd->impl("exchange_rows", &exchange_rows_differentiable);
}

}  // namespace npugraph::npu_ops
