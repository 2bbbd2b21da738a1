// SPDX-License-Identifier: Apache-2.0
// Manifold-constrained hyper-connections (Xie et al., DeepSeek, arXiv 2512.24880): n residual streams that are mixed
// into the input of a layer, and to which its output is added. In float32.
#include <tuple>
#include <vector>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {
namespace {

constexpr int64_t kKinds = 3;  // of coefficients: before the layer, after it, between streams

// x, [tokens.., n, size], and the inputs of its coefficients.
struct Streams {
  Tensor x;               // [tokens, n, size]
  Tensor flat, weighted;  // [tokens, n * size]; weighted is flat times gamma
  Tensor phi;             // [n * (n + 2), n * size]
  Tensor alpha;           // [n * (n + 2)]
  c10::SymInt n;
};

// [3] -> one for each coefficient: n of the first two kinds, n * n of the third.
Tensor for_coefficients(const Tensor& alpha, const c10::SymInt& n) {
  const auto of = [&](int64_t kind, const c10::SymInt& count) {
    return alpha.narrow(0, kind, 1).expand_symint({count});
  };
  return at::cat({of(0, n), of(1, n), of(2, n * n)});
}

Streams streams(const char* op, const Tensor& x, const Tensor& phi, const Tensor& alpha, const OptionalTensor& gamma) {
  check_floating(op, "x", x);
  check_dims(op, "x", x, 3, 8);
  check_dims(op, "phi", phi, 2, 2);
  const c10::SymInt n = x.sym_size(-2), size = x.sym_size(-1), count = n * (n + 2);
  TORCH_CHECK(phi.sym_size(0) == count && phi.sym_size(1) == n * size, op, ": phi has shape ", phi.sym_sizes(),
              ", allowed is (", count, ", ", n * size, ") for ", n, " streams of size ", size);
  TORCH_CHECK(alpha.dim() == 1 && alpha.sym_size(0) == kKinds, op, ": alpha has shape ", alpha.sym_sizes(),
              ", allowed is (3)");
  Streams out{.x = wide(x).flatten(0, -3), .phi = wide(phi), .n = n};
  out.flat = out.x.flatten(1);
  out.weighted = gamma && gamma->defined() ? out.flat * wide(*gamma).flatten() : out.flat;
  out.alpha = for_coefficients(wide(alpha), n);
  return out;
}

// Flattens the dimensions of tokens, which are those of x: [tokens.., ..] -> [tokens, ..], and back.
Tensor by_tokens(const Tensor& tensor, const Tensor& x) { return wide(tensor).flatten(0, x.dim() - 3); }
Tensor as_tokens(const Tensor& rows, const Tensor& x) {
  return rows.unflatten_symint(0, x.sym_sizes().slice(0, x.dim() - 2));
}

Six mhc_pre(const Tensor& x, const Tensor& phi, const Tensor& alpha, const Tensor& bias, const OptionalTensor& gamma,
            double norm_eps, double hc_eps, int64_t out_flag, int64_t /*inner_precise: products are in float32*/) {
  const char* op = "npu_mhc_pre";
  check_choice(op, "out_flag", out_flag, {0, 1});
  const Streams given = streams(op, x, phi, alpha, gamma);
  const c10::SymInt& n = given.n;
  TORCH_CHECK(bias.dim() == 1 && bias.sym_size(0) == phi.sym_size(0), op, ": bias has shape ", bias.sym_sizes(),
              ", allowed is (", phi.sym_size(0), ")");
  const Tensor inv_rms = given.flat.square().mean(-1, /*keepdim=*/true).add(norm_eps).rsqrt();
  const Tensor h_mix = given.weighted.matmul(given.phi.t());
  const Tensor all = h_mix * inv_rms * given.alpha + wide(bias);
  const Tensor h_pre = all.narrow_symint(1, 0, n).sigmoid() + hc_eps;
  const Tensor h_post = all.narrow_symint(1, n, n).sigmoid() * 2;
  const Tensor h_res = all.narrow_symint(1, n * 2, n * n).contiguous();
  const Tensor h_in = (h_pre.unsqueeze(-1) * given.x).sum(1).to(x.scalar_type());
  const auto saved = [&](const Tensor& rows) { return out_flag == 1 ? as_tokens(rows, x) : rows.new_empty({0}); };
  return {as_tokens(h_in, x),        as_tokens(h_post, x), as_tokens(h_res.unflatten_symint(1, {n, n}), x),
          saved(inv_rms.squeeze(1)), saved(h_mix),         saved(h_pre)};
}

// The sum of each kind of coefficients.
Tensor by_kinds(const Tensor& of_coefficients, const c10::SymInt& n) {
  const auto of = [&](const c10::SymInt& start, const c10::SymInt& count) {
    return of_coefficients.narrow_symint(0, start, count).sum();
  };
  return at::stack({of(0, n), of(n, n), of(n * 2, n * n)});
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> mhc_pre_backward(
    const Tensor& x, const Tensor& phi, const Tensor& alpha, const Tensor& grad_h_in, const Tensor& grad_h_post,
    const Tensor& grad_h_res, const Tensor& inv_rms, const Tensor& h_mix, const Tensor& h_pre, const Tensor& h_post,
    const OptionalTensor& gamma, double hc_eps, const OptionalTensor& grad_x_post, int64_t /*inner_precise*/) {
  const char* op = "npu_mhc_pre_backward";
  const Streams given = streams(op, x, phi, alpha, gamma);
  const auto rows = [&](const Tensor& tensor) { return by_tokens(tensor, x); };
  const Tensor of_in = rows(grad_h_in).unsqueeze(1), factors = rows(h_pre), post = rows(h_post);
  const Tensor rstd = rows(inv_rms).unsqueeze(1), mix = rows(h_mix), sigmoid = factors - hc_eps;
  const Tensor of_pre = (of_in * given.x).sum(-1) * sigmoid * (1 - sigmoid);
  const Tensor of_post = rows(grad_h_post) * post * (1 - post / 2);
  const Tensor of_all = at::cat({of_pre, of_post, rows(grad_h_res).flatten(1)}, 1);
  const Tensor of_scaled = of_all * given.alpha;
  const Tensor of_mix = of_scaled * rstd, of_weighted = of_mix.matmul(given.phi);
  const Tensor of_rstd = (of_scaled * mix).sum(1, /*keepdim=*/true);
  const bool has_gamma = gamma && gamma->defined();
  Tensor of_x = has_gamma ? of_weighted * wide(*gamma).flatten() : of_weighted;
  of_x = of_x - of_rstd * rstd.pow(3) * given.flat / c10::Scalar(given.flat.sym_size(1));
  of_x = of_x + (factors.unsqueeze(-1) * of_in).flatten(1);
  if (grad_x_post && grad_x_post->defined()) of_x = of_x + rows(*grad_x_post).flatten(1);
  const Tensor of_gamma =
      has_gamma ? (of_weighted * given.flat).sum(0).reshape_symint(gamma->sym_sizes()) : of_x.new_empty({0});
  return {as_tokens(of_x.view_symint(given.x.sym_sizes()), x).to(x.scalar_type()), of_mix.t().matmul(given.weighted),
          by_kinds((of_all * mix * rstd).sum(0), given.n), of_all.sum(0), of_gamma};
}

// h_res^T @ x for each token.
Tensor mixed(const Tensor& x, const OptionalTensor& h_res) {
  if (!h_res || !h_res->defined()) return wide(x);
  return wide(*h_res).transpose(-1, -2).matmul(wide(x));
}

void check_post(const char* op, const Tensor& x, const OptionalTensor& h_res, const Tensor& h_out,
                const Tensor& h_post) {
  check_floating(op, "x", x);
  check_dims(op, "x", x, 2, 8);
  check_same_shape(op, "h_out", h_out, "one stream of x", x.select(-2, 0));
  check_same_shape(op, "h_post", h_post, "x without its last dimension", x.select(-1, 0));
  if (!h_res || !h_res->defined()) return;
  const c10::SymInt n = x.sym_size(-2);
  TORCH_CHECK(h_res->dim() == x.dim() && h_res->sym_size(-1) == n && h_res->sym_size(-2) == n, op, ": h_res has shape ",
              h_res->sym_sizes(), ", allowed is a matrix of (", n, ", ", n, ") for each token");
}

Tensor mhc_post(const Tensor& x, const OptionalTensor& h_res, const Tensor& h_out, const Tensor& h_post) {
  check_post("npu_mhc_post", x, h_res, h_out, h_post);
  return (mixed(x, h_res) + wide(h_post).unsqueeze(-1) * wide(h_out).unsqueeze(-2)).to(x.scalar_type());
}

std::tuple<Tensor, Tensor, Tensor, Tensor> mhc_post_backward(const Tensor& grad_y, const Tensor& x,
                                                             const OptionalTensor& h_res, const Tensor& h_out,
                                                             const Tensor& h_post) {
  const char* op = "npu_mhc_post_backward";
  check_post(op, x, h_res, h_out, h_post);
  check_same_shape(op, "grad_y", grad_y, "x", x);
  const Tensor given = wide(grad_y);
  const bool mixes = h_res && h_res->defined();
  const Tensor of_x = mixes ? wide(*h_res).matmul(given) : given;
  const Tensor of_res = mixes ? wide(x).matmul(given.transpose(-1, -2)).to(h_res->scalar_type()) : given.new_empty({0});
  const Tensor of_out = (given * wide(h_post).unsqueeze(-1)).sum(-2);
  const Tensor of_post = (given * wide(h_out).unsqueeze(-2)).sum(-1);
  return {of_x.to(x.scalar_type(), /*non_blocking=*/false, /*copy=*/!mixes), of_res, of_out.to(h_out.scalar_type()),
          of_post.to(h_post.scalar_type())};
}

constexpr int64_t kAlongRows = -1, kAlongColumns = -2;  // dimensions over which sums are 1

// The dimension of normalisation number `step`.
int64_t dim_of_step(int64_t step) { return step % 2 == 0 ? kAlongRows : kAlongColumns; }

std::tuple<Tensor, Tensor, Tensor> mhc_sinkhorn(const Tensor& x, double eps, c10::SymInt num_iters, int64_t out_flag) {
  const char* op = "npu_mhc_sinkhorn";
  check_floating(op, "x", x);
  check_dims(op, "x", x, 2, 8);
  check_choice(op, "out_flag", out_flag, {0, 1});
  const int64_t count = num_iters.guard_int(__FILE__, __LINE__);
  TORCH_CHECK(count >= 1, op, ": num_iters is ", count, ", allowed are 1 and more");
  const Tensor exact = wide(x);
  const Tensor exponentials = (exact - exact.detach().amax(kAlongRows, /*keepdim=*/true)).exp();
  std::vector<Tensor> sums{exponentials.sum(kAlongRows, /*keepdim=*/true)}, norms{exponentials / sums.front()};
  Tensor matrix = norms.front() + eps;
  for (int64_t step = 1; step < 2 * count; ++step) {
    sums.push_back(matrix.sum(dim_of_step(step), /*keepdim=*/true) + eps);
    matrix = matrix / sums.back();
    norms.push_back(matrix);
  }
  for (size_t step = 0; step < sums.size(); ++step)
    sums[step] = sums[step].squeeze(dim_of_step(static_cast<int64_t>(step)));
  const auto saved = [&](const std::vector<Tensor>& steps) {
    return out_flag == 1 ? at::stack(steps).detach() : matrix.new_empty({0});
  };
  return {matrix.to(x.scalar_type()), saved(norms), saved(sums)};
}

Tensor mhc_sinkhorn_backward(const Tensor& grad_y, const Tensor& norm, const Tensor& sum) {
  const char* op = "npu_mhc_sinkhorn_backward";
  TORCH_CHECK(norm.dim() == grad_y.dim() + 1 && sum.dim() == grad_y.dim(), op, ": grad_y, norm and sum have shapes ",
              grad_y.sym_sizes(), ", ", norm.sym_sizes(), " and ", sum.sym_sizes(),
              ", allowed are (.., n, n), (steps, .., n, n) and (steps, .., n)");
  const int64_t steps = norm.sym_size(0).guard_int(__FILE__, __LINE__);
  Tensor gradient = wide(grad_y);
  for (int64_t step = steps - 1; step >= 0; --step) {
    const Tensor result = wide(norm.select(0, step));
    const Tensor row = (gradient * result).sum(dim_of_step(step), /*keepdim=*/true);
    // The first step is a softmax: its gradient has the factor exponential / sum, which is `result`, and not 1 / sum.
    gradient = step == 0 ? result * (gradient - row)
                         : (gradient - row) / wide(sum.select(0, step)).unsqueeze(dim_of_step(step));
  }
  return gradient.to(grad_y.scalar_type());
}

}  // namespace

void define_hyper_connections(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_mhc_pre(Tensor x, Tensor phi, Tensor alpha, Tensor bias, *, Tensor? gamma=None, float "
                "norm_eps=1e-6, float hc_eps=1e-6, int out_flag=0, int inner_precise=0) -> (Tensor, Tensor, Tensor, "
                "Tensor, Tensor, Tensor)",
      .kernel = parts(&mhc_pre),
      .definition = "Manifold-constrained hyper-connection before a layer (DeepSeek, arXiv 2512.24880, section 4): "
                    "mixes the n residual streams x [..., n, size] of each token into the input h_in [..., size] of "
                    "the layer. With r as the streams of a token in one row [n * size], inv_rms = 1 / sqrt(mean(r^2) + "
                    "norm_eps), h_mix = (r * gamma) @ phi^T and h = alpha * h_mix * inv_rms + bias. The n * (n + 2) "
                    "elements of h give h_pre = sigmoid(h) + hc_eps (the first n), h_post = 2 * sigmoid(h) (the next "
                    "n) and h_res = h (the last n * n); alpha [3] has one value for each of the three. h_in is the sum "
                    "of h_pre * x over the streams. phi is [n * (n + 2), n * size], bias [n * (n + 2)], gamma has n * "
                    "size elements. Results: h_in in the type of x, and in float32 h_post [..., n], h_res [..., n, n] "
                    "and, with out_flag 1, inv_rms [...], h_mix [..., n * (n + 2)] and h_pre [..., n], which are empty "
                    "otherwise. inner_precise is ignored: products are in float32.",
  });
  library.add({
      .schema =
          "npu::npu_mhc_pre_backward(Tensor x, Tensor phi, Tensor alpha, Tensor grad_h_in, Tensor grad_h_post, Tensor "
          "grad_h_res, Tensor inv_rms, Tensor h_mix, Tensor h_pre, Tensor h_post, Tensor? gamma=None, float "
          "hc_eps=1e-6, Tensor? grad_x_post=None, int inner_precise=0) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&mhc_pre_backward),
      .definition = "Gradients of npu_mhc_pre with respect to x, phi, alpha, bias and gamma, from those of its first "
                    "three results. inv_rms, h_mix, h_pre and h_post are results of the forward call with out_flag 1. "
                    "grad_x_post, if given, is added to the gradient of x, which has the type of x. The other "
                    "gradients are in float32; that of gamma is empty without gamma. inner_precise is ignored: "
                    "products are in float32.",
  });
  library.add({
      .schema = "npu::npu_mhc_post(Tensor x, Tensor? h_res, Tensor h_out, Tensor h_post) -> Tensor",
      .kernel = parts(&mhc_post),
      .definition = "Manifold-constrained hyper-connection after a layer (DeepSeek, arXiv 2512.24880): y = h_res^T @ x "
                    "+ h_post * h_out. It mixes the n residual streams x [..., n, size] by h_res [..., n, n], and adds "
                    "the output h_out [..., size] of the layer to each stream with its factor in h_post [..., n]. "
                    "Without h_res, the streams are not mixed. The result has the shape and type of x, and is computed "
                    "in float32. Stream i of h_res^T @ x is the sum over j of h_res[j, i] * x[j], as in DeepSeek's "
                    "code, where the columns of h_res sum to 1; in the paper its rows do, and the matrix is not "
                    "transposed.",
  });
  library.add({
      .schema = "npu::npu_mhc_post_backward(Tensor grad_y, Tensor x, Tensor? h_res, Tensor h_out, Tensor h_post) -> "
                "(Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&mhc_post_backward),
      .definition = "Gradients of npu_mhc_post with respect to x, h_res, h_out and h_post, from the gradient grad_y of "
                    "its result. Each has the shape and type of its argument; that of h_res is empty without h_res.",
  });
  library.add({
      .schema = "npu::npu_mhc_sinkhorn(Tensor x, *, float eps=1e-6, SymInt num_iters=20, int out_flag=0) -> (Tensor, "
                "Tensor, Tensor)",
      .kernel = parts(&mhc_sinkhorn),
      .definition = "Turns x [..., n, n] into a nearly doubly stochastic matrix (Sinkhorn and Knopp, 1967). The first "
                    "iteration is a softmax of each row, plus eps, and then divides columns by their sums plus eps; "
                    "the other num_iters - 1 iterations divide rows, and then columns, by their sums plus eps. "
                    "Results: the matrix in the type of x, and, with out_flag 1, the matrix after each of these "
                    "normalisations, [2 * num_iters, ..., n, n], and its divisors, [2 * num_iters, ..., n], in "
                    "float32, which are empty otherwise. The first of these matrices is the softmax before eps is "
                    "added.",
  });
  library.add({
      .schema = "npu::npu_mhc_sinkhorn_backward(Tensor grad_y, Tensor norm, Tensor sum) -> Tensor",
      .kernel = parts(&mhc_sinkhorn_backward),
      .definition = "Gradient of npu_mhc_sinkhorn with respect to x, from the gradient grad_y of its first result. "
                    "norm and sum are its second and third results with out_flag 1. The result has the shape and type "
                    "of grad_y.",
  });
}

}  // namespace npugraph::npu_ops
