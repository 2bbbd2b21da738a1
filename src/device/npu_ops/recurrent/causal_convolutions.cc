// SPDX-License-Identifier: Apache-2.0
// Causal depthwise convolutions of sequences, in float32: a result depends on its own token and the K - 1 before it.
#include <string>
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/call_arguments.h"
#include "device/npu_ops/parts/parts.h"
#include "device/npu_ops/parts/rows.h"

namespace npugraph::npu_ops {
namespace {

using c10::OperatorHandle;
using c10::SymInt;
using torch::jit::Stack;

// `x` shifted by `count` rows along dim 0, towards the end if positive; zeros fill the gap.
Tensor moved(const Tensor& x, int64_t count) {
  const SymInt kept = (x.sym_size(0) - std::abs(count)).max(0);
  const Tensor part = count >= 0 ? x.slice_symint(0, 0, kept) : x.slice_symint(0, x.sym_size(0) - kept);
  auto sizes = c10::SymDimVector(x.sym_sizes());
  sizes[0] = sizes[0] - kept;
  const Tensor zeros = x.new_zeros_symint(sizes);
  return count >= 0 ? at::cat({zeros, part}) : at::cat({part, zeros});
}

void check_masked(const char* op, const Tensor& input, const Tensor& weight, const OptionalTensor& mask) {
  check_floating(op, "input", input);
  check_dims(op, "input", input, 3, 3);
  check_dims(op, "weight", weight, 2, 2);
  TORCH_CHECK(weight.sym_size(1) == input.sym_size(2), op, ": weight has shape ", weight.sym_sizes(),
              ", allowed is [K, H] with the H of input, ", input.sym_size(2));
  if (!mask) return;
  check_type(op, "mask", *mask, {at::kBool});
  TORCH_CHECK(mask->dim() == 2 && mask->sym_size(0) == input.sym_size(1) && mask->sym_size(1) == input.sym_size(0), op,
              ": mask has shape ", mask->sym_sizes(), ", allowed is [B, S] of input, ", input.sym_sizes());
}

// A mask [B, S], shaped to broadcast with [S, B, H].
Tensor mask_of_rows(const Tensor& mask) { return mask.t().unsqueeze(2); }

Tensor masked_causal_conv1d(const Tensor& input, const Tensor& weight, const OptionalTensor& mask) {
  check_masked("npu_masked_causal_conv1d", input, weight, mask);
  const Tensor x = wide(input), w = wide(weight);
  const int64_t taps = weight.sym_size(0).guard_int(__FILE__, __LINE__);
  Tensor sum = at::zeros_like(x);
  for (int64_t k = 0; k < taps; ++k) sum = sum + moved(x, taps - 1 - k) * w[k];
  return (mask ? sum * mask_of_rows(*mask) : sum).to(input.scalar_type());
}

std::tuple<Tensor, Tensor> masked_causal_conv1d_backward(const Tensor& grad_output, const Tensor& input,
                                                         const Tensor& weight, const OptionalTensor& mask) {
  constexpr const char* kOp = "npu_masked_causal_conv1d_backward";
  check_masked(kOp, input, weight, mask);
  check_same_shape(kOp, "grad_output", grad_output, "input", input);
  const Tensor x = wide(input), w = wide(weight);
  const Tensor grad = mask ? wide(grad_output) * mask_of_rows(*mask) : wide(grad_output);
  const int64_t taps = weight.sym_size(0).guard_int(__FILE__, __LINE__);
  Tensor of_input = at::zeros_like(x);
  std::vector<Tensor> of_taps;
  for (int64_t k = 0; k < taps; ++k) {
    of_input = of_input + moved(grad, k + 1 - taps) * w[k];
    of_taps.push_back((grad * moved(x, taps - 1 - k)).sum({0, 1}));
  }
  return {of_input.to(input.scalar_type()), at::stack(of_taps).to(weight.scalar_type())};
}

// The arguments of npu_fused_causal_conv1d after weight and conv_states.
struct Options {
  const char* op;
  OptionalTensor query_start_loc, cache_indices, initial_state_mode, bias, num_accepted_tokens;
  std::string activation, conv_mode;
  int64_t pad_slot_id, run_mode;
  bool residual;
  OptionalTensor num_computed_tokens, first_block, last_block, initial_block;
  int64_t block_size;
};

void check_fused(const Options& options, const Tensor& x, const Tensor& weight, const Tensor& states) {
  check_floating(options.op, "x", x);
  check_dims(options.op, "x", x, 2, 3);
  check_dims(options.op, "weight", weight, 2, 2);
  check_dims(options.op, "conv_states", states, 3, 3);
  TORCH_CHECK(weight.sym_size(1) == x.sym_size(-1) && states.sym_size(2) == x.sym_size(-1), options.op,
              ": weight has shape ", weight.sym_sizes(), " and conv_states ", states.sym_sizes(),
              ", allowed are [K, dim] and [slots, places, dim] with the dim of x, ", x.sym_size(-1));
  TORCH_CHECK(states.sym_size(1) >= weight.sym_size(0) - 1, options.op, ": conv_states has ", states.sym_size(1),
              " places, allowed are K - 1 = ", weight.sym_size(0) - 1, " and more");
  TORCH_CHECK(options.activation == "None" || options.activation == "silu" || options.activation == "swish", options.op,
              ": activation is '", options.activation, "', allowed are 'None', 'silu' and 'swish'");
  check_choice(options.op, "run_mode", options.run_mode, {0, 1});
  TORCH_CHECK(options.conv_mode == "default", options.op, ": conv_mode is '", options.conv_mode,
              "', allowed is 'default'");
  const bool by_block = options.first_block || options.last_block || options.initial_block;
  TORCH_CHECK(!by_block || (options.last_block && options.initial_block && options.cache_indices &&
                            options.cache_indices->dim() == 2),
              options.op,
              ": block_idx_last_scheduled_token and initial_state_idx, and cache_indices of [sequences, "
              "blocks], are needed together");
  TORCH_CHECK(!options.first_block || options.num_computed_tokens, options.op,
              ": block_idx_first_scheduled_token asks for num_computed_tokens");
  TORCH_CHECK(!options.first_block || !options.num_accepted_tokens, options.op,
              ": allowed is one of block_idx_first_scheduled_token and num_accepted_tokens");
}

// Sequences of tokens, where each token is one row. All tensors are int64.
struct ConvSequences {
  Tensor starts, lengths;  // of each sequence
  Tensor owner;            // of each token; the number of sequences for tokens after the last sequence
};

ConvSequences conv_sequences(const Options& options, const Tensor& x) {
  const SymInt tokens = x.dim() == 3 ? x.sym_size(0) * x.sym_size(1) : x.sym_size(0);
  if (options.query_start_loc) {
    const Tensor ends = options.query_start_loc->to(at::kLong);
    const Tensor starts = ends.slice(0, 0, -1), last = ends.slice(0, 1);
    const Tensor owner = (count_up(x, tokens).unsqueeze(1) >= last).sum(1);
    return {starts, last - starts, owner};
  }
  const SymInt count = x.sym_size(0), length = x.dim() == 3 ? x.sym_size(1) : SymInt(1);
  const Tensor all = count_up(x, count);
  return {all * at::Scalar(length), at::full_like(all, at::Scalar(length)),
          count_up(x, tokens).floor_divide(at::Scalar(length))};
}

// The rows that each sequence is convolved from: K - 1 rows of its initial state, then its tokens.
struct History {
  Tensor x, states;  // [tokens, dim], [slots, places, dim]
  // For each sequence: its first token, the slot of its initial state, and the first place read there.
  Tensor starts, slot, offset;
  Tensor has_state;  // of each sequence; if false, zeros precede the first token
  int64_t before;    // K - 1

  // The rows at `places` of the histories of sequences `owner`.
  Tensor rows(const Tensor& owner, const Tensor& places) const {
    const Tensor token = (starts.take(owner) + places - before).clamp_min(0).clamp_max(at::Scalar(x.sym_size(0) - 1));
    const Tensor place = (offset.take(owner) + places).clamp_max(at::Scalar(states.sym_size(1) - 1));
    const auto one = [](const Tensor& which) { return which.unsqueeze(-1); };
    const Tensor stored = wide(states.index({slot.take(owner), place})) * one(has_state.take(owner));
    return at::where(one(places >= before), x.index({token}), stored);
  }
};

Tensor column(const Tensor& table, const OptionalTensor& index) {
  if (table.dim() == 1) return table;
  if (!index) return table.select(1, 0);
  return table.gather(1, index->to(at::kLong).unsqueeze(1)).squeeze(1);
}

Tensor slots_of(const Options& options, const ConvSequences& sequences) {
  if (!options.cache_indices) return count_up(sequences.starts, sequences.starts.sym_size(0));
  const Tensor slots = options.cache_indices->to(at::kLong);
  return slots.masked_fill(slots == options.pad_slot_id, -1);
}

History history_of(const Options& options, const Tensor& x, const Tensor& states, const ConvSequences& sequences,
                   const Tensor& slots, int64_t before) {
  const Tensor rows = wide(x).reshape_symint({-1, x.sym_size(-1)});
  const Tensor offset = options.num_accepted_tokens ? (options.num_accepted_tokens->to(at::kLong) - 1).clamp_min(0)
                                                    : at::zeros_like(sequences.starts);
  const Tensor always = at::full_like(sequences.starts, options.run_mode).ne(0);
  const Tensor has_state = options.initial_state_mode ? options.initial_state_mode->ne(0) : always;
  return {rows, states, sequences.starts, column(slots, options.initial_block).clamp_min(0), offset, has_state, before};
}

// Writes the state that each sequence leaves behind, the rows of its history up to its end, and the states at the ends
// of the blocks that it fills.
void keep_states(const Options& options, const Tensor& states, const ConvSequences& sequences, const History& history,
                 const Tensor& slots) {
  Tensor ends = sequences.lengths.unsqueeze(1), to = column(slots, options.last_block).unsqueeze(1);
  if (options.first_block) {
    const Tensor block = count_up(slots, slots.sym_size(1)).unsqueeze(0);
    const Tensor last = options.last_block->unsqueeze(1);
    const Tensor filled = (block >= options.first_block->unsqueeze(1)).logical_and(block < last);
    const Tensor boundary = (block + 1) * options.block_size - options.num_computed_tokens->to(at::kLong).unsqueeze(1);
    ends = at::where(block == last, ends, boundary);
    to = at::where(filled.logical_or(block == last), slots, -1);
  }
  to = to.masked_fill(sequences.lengths.eq(0).unsqueeze(1), -1);
  // Proposed tokens may be rejected later: all of them are kept, after the rows before the first one.
  const Tensor skipped = options.num_accepted_tokens ? at::ones_like(ends) : ends;
  const Tensor places = skipped.unsqueeze(2) + count_up(states, states.sym_size(1));
  const Tensor owner = count_up(states, ends.sym_size(0)).view_symint({-1, 1, 1}).expand_symint(places.sym_sizes());
  const Tensor rows = history.rows(owner, places);
  const Tensor there = states.index_select(0, to.clamp_min(0).flatten()).view_symint(rows.sym_sizes());
  const Tensor known = (places < (ends + history.before).unsqueeze(2)).unsqueeze(3);
  put_rows(states, {to.flatten()}, at::where(known, rows.to(states.scalar_type()), there).flatten(0, 1));
}

// The results for tokens of sequences that have a slot, in float32, and `rest` for the others: [tokens, dim].
Tensor convolved(const Options& options, const Tensor& weight, const ConvSequences& sequences, const History& history,
                 const Tensor& slots, const Tensor& rest) {
  const SymInt count = sequences.starts.sym_size(0);
  const Tensor owner = sequences.owner.clamp_max(at::Scalar(count - 1));
  const Tensor place = count_up(history.x, history.x.sym_size(0)) - sequences.starts.take(owner);
  Tensor sum = options.bias ? wide(*options.bias).expand_symint(history.x.sym_sizes()) : at::zeros_like(history.x);
  const Tensor taps = wide(weight);
  for (int64_t k = 0; k <= history.before; ++k) sum = sum + history.rows(owner, place + k) * taps[k];
  if (options.activation != "None") sum = at::silu(sum);
  if (options.residual) sum = sum + history.x;
  const Tensor taken =
      (sequences.owner < at::Scalar(count)).logical_and(column(slots, options.last_block).take(owner) >= 0);
  return at::where(taken.unsqueeze(1), sum, rest);
}

Options options_of(const CallArguments& call) {
  const std::string activation = call.text({"activation"}), conv_mode = call.text({"conv_mode"});
  return {.op = call.op(),
          .query_start_loc = call.given_tensor({"query_start_loc"}),
          .cache_indices = call.given_tensor({"cache_indices"}),
          .initial_state_mode = call.given_tensor({"initial_state_mode"}),
          .bias = call.given_tensor({"bias"}),
          .num_accepted_tokens = call.given_tensor({"num_accepted_tokens"}),
          .activation = activation.empty() ? "None" : activation,
          .conv_mode = conv_mode.empty() ? "default" : conv_mode,
          .pad_slot_id = call.integer({"pad_slot_id"}, -1),
          .run_mode = call.integer({"run_mode"}),
          .residual = call.integer({"residual_connection"}) != 0,
          .num_computed_tokens = call.given_tensor({"num_computed_tokens"}),
          .first_block = call.given_tensor({"block_idx_first_scheduled_token"}),
          .last_block = call.given_tensor({"block_idx_last_scheduled_token"}),
          .initial_block = call.given_tensor({"initial_state_idx"}),
          .block_size = call.integer({"block_size"}, 128)};
}

// The result of the operator, with `rest` for tokens without a slot. Writes conv_states.
Tensor fused(const CallArguments& call, const Tensor& rest) {
  const Options options = options_of(call);
  const Tensor &x = call.tensor({"x"}), &weight = call.tensor({"weight"}), &states = call.tensor({"conv_states"});
  check_fused(options, x, weight, states);
  const ConvSequences sequences = conv_sequences(options, x);
  const Tensor slots = slots_of(options, sequences);
  const int64_t before = weight.sym_size(0).guard_int(__FILE__, __LINE__) - 1;
  const History history = history_of(options, x, states, sequences, slots, before);
  const Tensor y =
      convolved(options, weight, sequences, history, slots, wide(rest).reshape_symint({-1, x.sym_size(-1)}));
  keep_states(options, states, sequences, history, slots);
  return y.to(x.scalar_type()).view_symint(x.sym_sizes());
}

void fused_causal_conv1d(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  call.give(fused(call, at::zeros_like(call.tensor({"x"}))));
}

void fused_causal_conv1d_v2(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Tensor& x = call.tensor({"x"});
  x.copy_(fused(call, x));
  call.give();
}

}  // namespace

void define_causal_convolutions(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_fused_causal_conv1d(Tensor x, Tensor weight, Tensor(a!) conv_states, *, Tensor? "
                "query_start_loc=None, Tensor? cache_indices=None, Tensor? initial_state_mode=None, Tensor? bias=None, "
                "Tensor? num_accepted_tokens=None, str? activation=\"None\", int? pad_slot_id=-1, int? run_mode=0, "
                "int? residual_connection=0, int? max_query_len=-1, Tensor? num_computed_tokens=None, Tensor? "
                "block_idx_first_scheduled_token=None, Tensor? block_idx_last_scheduled_token=None, Tensor? "
                "initial_state_idx=None, int? block_size=128, str? conv_mode=\"default\") -> Tensor",
      .kernel = parts(boxed<&fused_causal_conv1d>()),
      .traits = {.writes_rows_of = {"conv_states"}},
      .definition = "Causal depthwise convolution of sequences of tokens with a cache of states, which it updates in "
                    "place, as causal_conv1d_fn and causal_conv1d_update of vLLM do: y[t] = activation(bias + sum over "
                    "k of weight[k] * x[t - K + 1 + k]), plus x[t] if residual_connection is not 0. weight is [K, "
                    "dim], conv_states is [slots, places, dim] (Ascend does not publish the order of these axes), "
                    "activation is None, silu or swish, and conv_mode must be default. x is [tokens, dim] with "
                    "query_start_loc, the starts of the sequences and the end of the last; otherwise [B, S, dim], or "
                    "[B, dim] with one token per sequence. Each sequence has a slot in cache_indices, by default its "
                    "number. The K - 1 rows before its first token are the first K - 1 places of the slot if its "
                    "element of initial_state_mode, [sequences], is not 0, or, without initial_state_mode, if run_mode "
                    "is 1 (which has no other effect); otherwise they are zeros, also with num_accepted_tokens. Its "
                    "last K - 1 rows, which include those before it if it is shorter, are written to the first K - 1 "
                    "places, and other places stay. A sequence without tokens writes nothing. With num_accepted_tokens "
                    "(speculative decoding), the state is read from place num_accepted_tokens - 1 on, and the K - 2 "
                    "rows before the new tokens, then all new tokens, are written from place 0 on, as far as there are "
                    "places. For states by blocks, cache_indices is [sequences, blocks]: initial_state_idx names the "
                    "block that is read, and block_idx_last_scheduled_token the block that is written; they are "
                    "required together. With block_idx_first_scheduled_token and num_computed_tokens, but without "
                    "num_accepted_tokens, the states at the ends of the blocks from block_idx_first_scheduled_token up "
                    "to block_idx_last_scheduled_token, without this last one, are written, too: block j ends before "
                    "token (j + 1) * block_size - num_computed_tokens of the sequence in x. max_query_len is ignored. "
                    "Result: y in the shape and type of x, with 0 for tokens of no sequence and for those whose slot "
                    "to write is pad_slot_id or negative; such slots are not written.",
  });
  library.add({
      .schema = "npu::npu_fused_causal_conv1d_v2(Tensor(a!) x, Tensor weight, Tensor(b!) conv_states, *, Tensor? "
                "query_start_loc=None, Tensor? cache_indices=None, Tensor? initial_state_mode=None, Tensor? bias=None, "
                "Tensor? num_accepted_tokens=None, str? activation=\"None\", int? pad_slot_id=-1, int? run_mode=0, "
                "int? residual_connection=0, int? max_query_len=-1, Tensor? num_computed_tokens=None, Tensor? "
                "block_idx_first_scheduled_token=None, Tensor? block_idx_last_scheduled_token=None, Tensor? "
                "initial_state_idx=None, int? block_size=128, str? conv_mode=\"default\") -> ()",
      .kernel = parts(boxed<&fused_causal_conv1d_v2>()),
      .traits = {.writes_rows_of = {"conv_states"}},
      .definition = "npu_fused_causal_conv1d that writes its result into x. Tokens of no sequence, or of a slot that "
                    "is pad_slot_id or negative, keep their x.",
  });
  library.add({
      .schema = "npu::npu_masked_causal_conv1d(Tensor input, Tensor weight, *, Tensor? mask=None) -> Tensor",
      .kernel = parts(&masked_causal_conv1d),
      .definition = "Causal depthwise convolution over the first dimension of input: y[s] = sum over k of weight[k] * "
                    "input[s - K + 1 + k], with zeros before the first row. input is [S, B, H], weight is [K, H], and "
                    "y has the shape and type of input. Where mask, [B, S] in bool, is False, y is 0. Ascend publishes "
                    "neither the order of the axes nor that mask applies to y. Computed in float32.",
  });
  library.add({
      .schema = "npu::npu_masked_causal_conv1d_backward(Tensor grad_output, Tensor input, Tensor weight, *, Tensor? "
                "mask=None) -> (Tensor, Tensor)",
      .kernel = parts(&masked_causal_conv1d_backward),
      .definition = "Gradients of npu_masked_causal_conv1d for input and weight, in their shapes and types, where "
                    "grad_output is the gradient of its result.",
  });
}

}  // namespace npugraph::npu_ops
