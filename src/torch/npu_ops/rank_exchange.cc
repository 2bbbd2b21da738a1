// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/rank_exchange.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "torch/distributed/group.h"

namespace npugraph::npu_ops {
namespace {

using c10::SymInt;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

constexpr const char* kSchema =
    "exchange_rows(Tensor rows, Tensor? sent, Tensor? received, SymInt out_rows, SymInt? agreed, str op, "
    "str group, int size, int rank) -> Tensor";

std::vector<int64_t> numbers(const Tensor& counts) {
  const Tensor whole = counts.to(at::kLong).contiguous();
  const auto* first = whole.const_data_ptr<int64_t>();
  return {first, first + whole.numel()};
}

Tensor with_zeros_after(const Tensor& rows, int64_t count) {
  std::vector<int64_t> sizes = rows.sizes().vec();
  sizes[0] = count;
  Tensor out = at::zeros(sizes, rows.options());
  out.narrow(0, 0, rows.size(0)).copy_(rows);
  return out;
}

void check_agreed(const distributed::Group& group, const std::string& op, int64_t agreed) {
  const std::vector<int64_t> all = numbers(group.all_gather(at::full({1}, agreed, at::kLong)));
  TORCH_CHECK(std::all_of(all.begin(), all.end(), [&](int64_t other) { return other == agreed; }), op,
              ": ranks make place for different numbers of tokens, ", at::IntArrayRef(all),
              ": global_bs must be the same on all, and not 0 where they have different numbers");
}

Tensor exchange_rows(const Tensor& rows, const OptionalTensor& sent, const OptionalTensor& received, SymInt out_rows,
                     OptionalSymInt agreed, c10::string_view op, c10::string_view name, int64_t size, int64_t rank) {
  const std::string title(op);
  const distributed::Group group(title.c_str(), std::string(name), size);
  TORCH_CHECK(group.rank() == rank, title, ": this process is rank ", group.rank(), " of the group '", name,
              "', but its rank is given as ", rank);
  if (agreed) check_agreed(group, title, agreed->expect_int());
  if (!sent) return group.all_to_all(rows);
  const std::vector<int64_t> counts = numbers(*sent);
  const int64_t going = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const Tensor arrived = group.all_to_all(rows.narrow(0, 0, going), numbers(*received), counts);
  const int64_t places = out_rows.expect_int();
  TORCH_CHECK(arrived.size(0) <= places, title, ": ", arrived.size(0), " rows come to rank ", rank, ", which has ",
              places, " places");
  return with_zeros_after(arrived, places);
}

Tensor exchange_rows_meta(const Tensor& rows, const OptionalTensor&, const OptionalTensor&, SymInt out_rows,
                          OptionalSymInt, c10::string_view, c10::string_view, int64_t, int64_t) {
  std::vector<SymInt> sizes = rows.sym_sizes().vec();
  sizes[0] = std::move(out_rows);
  return rows.new_empty_symint(sizes);
}

Tensor call(const Tensor& rows, const OptionalTensor& sent, const OptionalTensor& received, const SymInt& out_rows,
            OptionalSymInt agreed, c10::string_view op, c10::string_view group, int64_t size, int64_t rank) {
  static const auto handle =
      c10::Dispatcher::singleton().findSchemaOrThrow("npugraph::exchange_rows", "").typed<decltype(exchange_rows)>();
  return handle.call(rows, sent, received, out_rows, std::move(agreed), op, group, size, rank);
}

struct Differentiable : torch::autograd::Function<Differentiable> {
  static Variable forward(AutogradContext* context, const Tensor& rows, const OptionalTensor& sent,
                          const OptionalTensor& received, SymInt out_rows, OptionalSymInt agreed, const std::string& op,
                          const std::string& group, int64_t size, int64_t rank) {
    context->save_for_backward({sent.value_or(Tensor()), received.value_or(Tensor())});
    context->saved_data["rows"] = rows.sym_size(0);
    context->saved_data["op"] = op;
    context->saved_data["group"] = group;
    context->saved_data["size"] = size;
    context->saved_data["rank"] = rank;
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(rows, sent, received, out_rows, std::move(agreed), op, group, size, rank);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list counts = context->get_saved_variables();
    const auto back = [](const Tensor& tensor) { return tensor.defined() ? OptionalTensor(tensor) : std::nullopt; };
    auto& saved = context->saved_data;
    const Tensor gradient =
        call(gradients[0], back(counts[1]), back(counts[0]), saved["rows"].toSymInt(), std::nullopt,
             saved["op"].toStringView(), saved["group"].toStringView(), saved["size"].toInt(), saved["rank"].toInt());
    return {gradient, {}, {}, {}, {}, {}, {}, {}, {}};
  }
};

Tensor exchange_rows_differentiable(const Tensor& rows, const OptionalTensor& sent, const OptionalTensor& received,
                                    SymInt out_rows, OptionalSymInt agreed, c10::string_view op, c10::string_view group,
                                    int64_t size, int64_t rank) {
  return Differentiable::apply(rows, sent, received, std::move(out_rows), std::move(agreed), std::string(op),
                               std::string(group), size, rank);
}

}  // namespace

Tensor exchanged(const RankGroup& ranks, const Tensor& rows, const Tensor& sent, const Tensor& received,
                 const SymInt& out_rows) {
  return call(rows, sent, received, out_rows, std::nullopt, ranks.op, ranks.name, ranks.size, ranks.rank);
}

Tensor exchanged(const RankGroup& ranks, const Tensor& rows, OptionalSymInt agreed) {
  return call(rows, std::nullopt, std::nullopt, rows.sym_size(0), std::move(agreed), ranks.op, ranks.name, ranks.size,
              ranks.rank);
}

void register_rank_exchange() {
  static auto* schema = new torch::Library(torch::Library::FRAGMENT, "npugraph", std::nullopt, __FILE__, __LINE__);
  static auto* cpu = new torch::Library(torch::Library::IMPL, "npugraph", c10::DispatchKey::CPU, __FILE__, __LINE__);
  static auto* meta = new torch::Library(torch::Library::IMPL, "npugraph", c10::DispatchKey::Meta, __FILE__, __LINE__);
  static auto* autograd =
      new torch::Library(torch::Library::IMPL, "npugraph", c10::DispatchKey::Autograd, __FILE__, __LINE__);
  schema->def(kSchema);
  cpu->impl("exchange_rows", &exchange_rows);
  meta->impl("exchange_rows", &exchange_rows_meta);
  autograd->impl("exchange_rows", &exchange_rows_differentiable);
}

}  // namespace npugraph::npu_ops
