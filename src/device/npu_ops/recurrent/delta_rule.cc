// SPDX-License-Identifier: Apache-2.0
// Linear attention by the gated delta rule (Yang et al., Gated Delta Networks, 2024), token by token, in float32.
#include <tuple>
#include <utility>
#include <vector>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/call_arguments.h"
#include "device/npu_ops/framework/checks.h"
#include "device/npu_ops/parts/rows.h"

namespace npugraph::npu_ops {
namespace {

// Inputs of the rule for each token, in float32: (tokens, heads of value, ...).
struct Tokens {
  Tensor query, key;   // (tokens, heads, key dim); query is scaled
  Tensor value, beta;  // (tokens, heads, value dim), (tokens, heads, 1)
  Tensor decay;        // factor of the state before a token, (tokens, heads, 1, 1 or key dim); may be undefined
};

Tokens tokens_of(const char* op, const Tensor& query, const Tensor& key, const Tensor& value,
                 const OptionalTensor& beta, std::optional<double> scale, const OptionalTensor& g,
                 const OptionalTensor& gk) {
  for (const Tensor* each : {&query, &key, &value}) check_dims(op, "query, key and value", *each, 3, 3);
  check_same_shape(op, "key", key, "query", query);
  TORCH_CHECK(value.size(1) % key.size(1) == 0, op, ": value has ", value.size(1),
              " heads, which is no multiple of those of key, ", key.size(1));
  const auto each_head = [&](const Tensor& x) {
    return wide(x).repeat_interleave(value.size(1) / key.size(1), /*dim=*/1);
  };
  Tokens out{each_head(query) * scale.value_or(1.0), each_head(key), wide(value), wide(beta), {}};
  out.beta = out.beta.defined() ? out.beta.unsqueeze(-1) : at::ones({value.size(0), value.size(1), 1});
  if (const Tensor gate = wide(g); gate.defined()) out.decay = gate.exp().unsqueeze(-1).unsqueeze(-1);
  if (const Tensor gate = wide(gk); gate.defined()) {
    const Tensor by_key = gate.exp().unsqueeze(-2);
    out.decay = out.decay.defined() ? out.decay * by_key : by_key;
  }
  return out;
}

// Processes one token: updates `state`, (heads, value dim, key dim) in float32, and returns (heads, value dim).
Tensor step(Tensor& state, const Tokens& tokens, int64_t token) {
  if (tokens.decay.defined()) state.mul_(tokens.decay[token]);
  const Tensor key = tokens.key[token].unsqueeze(-1);
  const Tensor known = at::bmm(state, key).squeeze(-1);
  const Tensor change = tokens.beta[token] * (tokens.value[token] - known);
  state.baddbmm_(change.unsqueeze(-1), key.transpose(1, 2));
  return at::bmm(state, tokens.query[token].unsqueeze(-1)).squeeze(-1);
}

// The number of tokens of all sequences. Raises an error if it is more than `tokens`.
int64_t checked_sum(const char* op, const std::vector<int64_t>& lengths, int64_t tokens) {
  int64_t total = 0;
  for (const int64_t length : lengths) total += length;
  TORCH_CHECK(total <= tokens, op, ": actual_seq_lengths sum up to ", total, ", and there are ", tokens, " tokens");
  return total;
}

Tensor recurrent(const char* op, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& state,
                 const OptionalTensor& beta, std::optional<double> scale, const OptionalTensor& actual_seq_lengths,
                 const OptionalTensor& ssm_state_indices, const OptionalTensor& num_accepted_tokens,
                 const OptionalTensor& g, const OptionalTensor& gk) {
  TORCH_CHECK(actual_seq_lengths && ssm_state_indices, op, ": actual_seq_lengths and ssm_state_indices are needed");
  const Tokens tokens = tokens_of(op, query, key, value, beta, scale, g, gk);
  const std::vector<int64_t> lengths = values_of(*actual_seq_lengths), places = values_of(*ssm_state_indices);
  const std::vector<int64_t> accepted = num_accepted_tokens ? values_of(*num_accepted_tokens) : std::vector<int64_t>{};
  const int64_t used = checked_sum(op, lengths, value.size(0));
  const Tensor written = ssm_state_indices->to(at::kLong).flatten().slice(0, 0, used);
  announce_rows(state, {written.masked_select(written.ge(0))});
  Tensor out = at::zeros(value.sizes(), value.options());
  int64_t start = 0;
  for (size_t sequence = 0; sequence < lengths.size(); ++sequence) {
    if (lengths[sequence] == 0) continue;
    const int64_t last = accepted.empty() ? 0 : accepted.at(sequence) - 1;
    const int64_t begin = std::exchange(start, start + lengths[sequence]);
    const int64_t from = places.at(static_cast<size_t>(begin + last));
    if (from < 0) continue;  // a sequence that only fills the batch
    Tensor current = state[from].to(tokens.value.scalar_type(), false, true);
    for (int64_t token = begin; token < start; ++token) {
      out[token].copy_(step(current, tokens, token));
      if (const int64_t to = places.at(static_cast<size_t>(token)); to >= 0) state[to].copy_(current);
    }
  }
  return out;
}

Tensor recurrent_gated_delta_rule(const Tensor& query, const Tensor& key, const Tensor& value, Tensor& state,
                                  const OptionalTensor& beta, std::optional<double> scale,
                                  const OptionalTensor& actual_seq_lengths, const OptionalTensor& ssm_state_indices,
                                  const OptionalTensor& num_accepted_tokens, const OptionalTensor& g,
                                  const OptionalTensor& gk) {
  return recurrent("npu_recurrent_gated_delta_rule", query, key, value, state, beta, scale, actual_seq_lengths,
                   ssm_state_indices, num_accepted_tokens, g, gk);
}

Tensor recurrent_meta(const Tensor&, const Tensor&, const Tensor& value, Tensor&, const OptionalTensor&,
                      std::optional<double>, const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                      const OptionalTensor&, const OptionalTensor&) {
  return value.new_empty_symint(value.sym_sizes());
}

std::tuple<Tensor, Tensor> recurrent_functional(const Tensor& query, const Tensor& key, const Tensor& value,
                                                const Tensor& state, const OptionalTensor& beta,
                                                std::optional<double> scale, const OptionalTensor& actual_seq_lengths,
                                                const OptionalTensor& ssm_state_indices,
                                                const OptionalTensor& num_accepted_tokens, const OptionalTensor& g,
                                                const OptionalTensor& gk) {
  const Tensor states = state.clone();
  const Tensor out = recurrent("npu_recurrent_gated_delta_rule_functional", query, key, value, states, beta, scale,
                               actual_seq_lengths, ssm_state_indices, num_accepted_tokens, g, gk);
  return {out, states};
}

std::tuple<Tensor, Tensor> recurrent_functional_meta(const Tensor&, const Tensor&, const Tensor& value,
                                                     const Tensor& state, const OptionalTensor&, std::optional<double>,
                                                     const OptionalTensor&, const OptionalTensor&,
                                                     const OptionalTensor&, const OptionalTensor&,
                                                     const OptionalTensor&) {
  return {value.new_empty_symint(value.sym_sizes()), at::empty_like(state)};
}

std::tuple<Tensor, Tensor> chunk_gated_delta_rule(const Tensor& query, const Tensor& key, const Tensor& value,
                                                  const OptionalTensor& beta, const OptionalTensor& initial_state,
                                                  const OptionalTensor& actual_seq_lengths, std::optional<double> scale,
                                                  const OptionalTensor& g) {
  const char* op = "npu_chunk_gated_delta_rule";
  const Tokens tokens = tokens_of(op, query, key, value, beta, scale, g, std::nullopt);
  const std::vector<int64_t> lengths =
      actual_seq_lengths ? values_of(*actual_seq_lengths) : std::vector<int64_t>{value.size(0)};
  checked_sum(op, lengths, value.size(0));
  Tensor out = at::zeros(value.sizes(), value.options());
  const auto sequences = static_cast<int64_t>(lengths.size());
  Tensor states = initial_state ? initial_state->clone(at::MemoryFormat::Contiguous)
                                : at::zeros({sequences, value.size(1), value.size(2), key.size(2)}, at::kFloat);
  TORCH_CHECK(states.size(0) == sequences, op, ": initial_state has ", states.size(0), " states for ", sequences,
              " sequences");
  int64_t token = 0;
  for (int64_t sequence = 0; sequence < sequences; ++sequence) {
    Tensor current = states[sequence].to(tokens.value.scalar_type(), false, true);
    for (const int64_t end = token + lengths[static_cast<size_t>(sequence)]; token < end; ++token)
      out[token].copy_(step(current, tokens, token));
    states[sequence].copy_(current);
  }
  return {out, states};
}

std::tuple<Tensor, Tensor> chunk_meta(const Tensor&, const Tensor& key, const Tensor& value, const OptionalTensor&,
                                      const OptionalTensor& initial_state, const OptionalTensor& actual_seq_lengths,
                                      std::optional<double>, const OptionalTensor&) {
  const Tensor out = value.new_empty_symint(value.sym_sizes());
  if (initial_state) return {out, initial_state->new_empty_symint(initial_state->sym_sizes())};
  const c10::SymInt sequences = actual_seq_lengths ? actual_seq_lengths->sym_size(0) : 1;
  return {out, value.new_empty_symint({sequences, value.sym_size(1), value.sym_size(2), key.sym_size(2)},
                                      value.options().dtype(at::kFloat))};
}

}  // namespace

void define_delta_rule(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_recurrent_gated_delta_rule(Tensor query, Tensor key, Tensor value, Tensor(a!) state, *, "
                "Tensor? beta=None, float? scale=None, Tensor? actual_seq_lengths=None, Tensor? "
                "ssm_state_indices=None, Tensor? num_accepted_tokens=None, Tensor? g=None, Tensor? gk=None) -> Tensor",
      .kernel = whole(&recurrent_gated_delta_rule, &recurrent_meta),
      .traits = {.writes_rows_of = {"state"}, .on_host = {"actual_seq_lengths"}},
      .definition = "Linear attention by the gated delta rule (Yang et al., Gated Delta Networks, 2024), token by "
                    "token, with states that are updated in place: S = S * exp(g) * exp(gk); S = S + beta * "
                    "outer(value - S @ key, key); y = S @ query * scale. query and key are [T, Nk, Dk], value is [T, "
                    "Nv, Dv], beta and g are [T, Nv], gk is [T, Nv, Dk], and state is [slots, Nv, Dv, Dk]. beta and "
                    "scale are 1 by default. actual_seq_lengths has the lengths of the sequences and "
                    "ssm_state_indices a slot for each token; both are required. A sequence starts from the state in "
                    "the slot of its first token, or with num_accepted_tokens (speculative decoding) in that of its "
                    "last accepted token. The state after each token is written into the slot of the token. Result: y "
                    "in the shape and type of value, with 0 for tokens after the last sequence.",
  });
  library.add({
      .schema =
          "npu::npu_recurrent_gated_delta_rule_functional(Tensor query, Tensor key, Tensor value, Tensor state, *, "
          "Tensor? beta=None, float? scale=None, Tensor? actual_seq_lengths=None, Tensor? ssm_state_indices=None, "
          "Tensor? num_accepted_tokens=None, Tensor? g=None, Tensor? gk=None) -> (Tensor, Tensor)",
      .kernel = whole(&recurrent_functional, &recurrent_functional_meta),
      .traits = {.on_host = {"actual_seq_lengths"}},
      .definition = "npu_recurrent_gated_delta_rule that leaves state unchanged, and returns an updated copy of it as "
                    "its second result.",
  });
  library.add({
      .schema =
          "npu::npu_chunk_gated_delta_rule(Tensor query, Tensor key, Tensor value, *, Tensor? beta=None, Tensor? "
          "initial_state=None, Tensor? actual_seq_lengths=None, float? scale=None, Tensor? g=None) -> (Tensor, Tensor)",
      .kernel = whole(&chunk_gated_delta_rule, &chunk_meta),
      .traits = {.on_host = {"actual_seq_lengths"}},
      .definition = "npu_recurrent_gated_delta_rule, without gk, of whole sequences (prefill) with one state per "
                    "sequence. initial_state is [sequences, Nv, Dv, Dk], by default zeros. actual_seq_lengths has the "
                    "lengths of the sequences; without it all tokens are one sequence. Results: y in the shape and "
                    "type of value, and the last state of each sequence in the type of initial_state, by default "
                    "float32.",
  });
}

}  // namespace npugraph::npu_ops
