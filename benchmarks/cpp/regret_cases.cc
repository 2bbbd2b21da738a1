// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/cpp/regret_cases.h"

#include <array>

#include "base/error.h"

namespace npugraph {
namespace {

std::string input(const char* name, const std::string& type) {
  return cat("input %", name, " : ", type, " user \"", name, "\"\n");
}

// Graphs in text form.

std::string gelu(const std::string& type) {
  return cat(input("x", type), input("y", type), "%a : ", type, " = aten.add.Tensor(%x, %y)\n%b : ", type,
             " = aten.gelu(%a)\nreturn %b");
}

std::string residual(const std::string& type) {
  return cat(input("x", type), input("y", type), input("z", type), "%a : ", type,
             " = aten.add.Tensor(%x, %y)\n%b : ", type, " = aten.mul.Tensor(%a, %z)\n%c : ", type,
             " = aten.relu(%b)\n%d : ", type, " = aten.add.Tensor(%c, %x)\nreturn %d");
}

std::string softmax(const std::string& type, int dim) {
  return cat(input("x", type), "%a : ", type, " = aten.mul.Tensor(%x, 0.125)\n%s : ", type, " = aten._softmax(%a, ",
             dim, ", false)\nreturn %s");
}

std::string layer_norm(const std::string& dtype, int64_t rows, int64_t columns) {
  const std::string type = cat(dtype, "[", rows, ", ", columns, "]"), row = cat(dtype, "[", columns, "]");
  const std::string of_row = cat("f32[", rows, ", 1]");
  return cat(input("x", type), input("y", type), input("w", row), input("b", row), "%a : ", type,
             " = aten.add.Tensor(%x, %y)\n%n, %m, %r : ", type, ", ", of_row, ", ", of_row,
             " = aten.native_layer_norm(%a, [", columns, "], %w, %b, 1e-05)\nreturn %n");
}

std::string square_sum(const std::string& type, const std::string& dims, const std::string& result) {
  return cat(input("x", type), "%a : ", type, " = aten.mul.Tensor(%x, %x)\n%s : ", result,
             " = aten.sum.dim_IntList(%a, [", dims, "])\nreturn %s");
}

std::string transposed(int64_t rows, int64_t columns) {
  const std::string to = cat("f32[", columns, ", ", rows, "]");
  return cat(input("x", cat("f32[", rows, ", ", columns, "]")), input("y", to), "%t : ", to, "{1, ", columns,
             "} = aten.t(%x) view(0)\n%a : ", to, " = aten.add.Tensor(%y, %t)\n%b : ", to,
             " = aten.mul.Tensor(%a, %y)\nreturn %b");
}

using Cases = std::vector<RegretCase>;

void add(Cases& cases, const std::string& name, const std::string& graph) {
  cases.push_back({name, [graph] { return nest_candidates(graph); }});
}

void add_elements(Cases& cases) {
  for (const char* sizes : {"8, 768", "128, 768", "128, 3072", "1024, 1024", "4096, 2048"}) {
    add(cases, cat("gelu f32[", sizes, "]"), gelu(cat("f32[", sizes, "]")));
    add(cases, cat("residual f32[", sizes, "]"), residual(cat("f32[", sizes, "]")));
  }
  for (const char* sizes : {"128, 3072", "4096, 2048"})
    add(cases, cat("residual bf16[", sizes, "]"), residual(cat("bf16[", sizes, "]")));
}

void add_rows(Cases& cases) {
  for (const char* sizes : {"131072, 8", "16384, 64", "12, 128", "1536, 128", "1024, 1024", "64, 16384", "4, 131072",
                            "1, 8192", "1, 32768", "1, 1048576"}) {
    add(cases, cat("softmax f32[", sizes, "]"), softmax(cat("f32[", sizes, "]"), -1));
  }
  constexpr std::array<std::array<int64_t, 2>, 6> kNorms = {
      {{8, 768}, {128, 768}, {4096, 768}, {1, 576}, {1, 65536}, {1, 1048576}}};
  for (const auto& [rows, columns] : kNorms)
    add(cases, cat("layer_norm f32[", rows, ", ", columns, "]"), layer_norm("f32", rows, columns));
  add(cases, "layer_norm bf16[128, 768]", layer_norm("bf16", 128, 768));
  for (const int64_t length : {8, 64, 1024, 16384, 65536, 1048576}) {
    const int64_t rows = length > 16384 ? 1 : (int64_t{1} << 20) / length;
    add(cases, cat("sum f32[", rows, ", ", length, "] of rows"),
        square_sum(cat("f32[", rows, ", ", length, "]"), "1", cat("f32[", rows, "]")));
  }
}

void add_columns(Cases& cases) {
  constexpr std::array<std::array<int64_t, 2>, 6> kSizes = {
      {{128, 768}, {768, 768}, {100000, 16}, {16384, 256}, {512, 64}, {64, 50257}}};
  for (const auto& [rows, columns] : kSizes) {
    add(cases, cat("sum f32[", rows, ", ", columns, "] of columns"),
        square_sum(cat("f32[", rows, ", ", columns, "]"), "0", cat("f32[", columns, "]")));
  }
  add(cases, "sum f32[2, 56, 56, 384] of images", square_sum("f32[2, 56, 56, 384]", "1, 2", "f32[2, 384]"));
  add(cases, "softmax f32[4, 320, 400] of columns", softmax("f32[4, 320, 400]", 1));
}

void add_transposes(Cases& cases) {
  for (const int64_t side : {64, 200, 768, 2048}) {
    const int64_t other = side == 200 ? 300 : side;
    add(cases, cat("transposed f32[", side, ", ", other, "]"), transposed(side, other));
  }
}

void add(Cases& cases, const Product& p) {
  const std::string name =
      cat("product ", name_of(p.dtype), " ", p.m, " x ", p.n, " x ", p.k, p.b_is_nk ? " nk" : " kn");
  cases.push_back({name, [p] { return product_candidates(p); }});
}

void add_products(Cases& cases) {
  constexpr std::array<std::array<int64_t, 2>, 3> kBert = {{{768, 768}, {3072, 768}, {768, 3072}}};
  constexpr std::array<std::array<int64_t, 2>, 2> kGpt = {{{2304, 768}, {768, 3072}}};
  constexpr std::array<std::array<int64_t, 2>, 4> kSmol = {{{576, 576}, {192, 576}, {1536, 576}, {576, 1536}}};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t m : {4, 9, 33, 128, 512})
      for (const auto& [n, k] : kBert) add(cases, {dtype, m, n, k});
    for (const int64_t m : {2, 8, 16, 64, 128})
      for (const auto& [n, k] : kGpt) add(cases, {dtype, m, n, k, false});
    for (const auto& [n, k] : kBert) add(cases, {dtype, 512, n, k, false});
    for (const auto& [m, n] : kBert) add(cases, {dtype, m, n, 512, false});
    for (const int64_t m : {2, 5, 8, 20, 64})
      for (const auto& [n, k] : kSmol) add(cases, {dtype, m, n, k});
  }
  add(cases, {DType::kF32, 128, 49152, 576});
}

}  // namespace

std::vector<RegretCase> regret_cases() {
  Cases cases;
  add_elements(cases);
  add_rows(cases);
  add_columns(cases);
  add_transposes(cases);
  add_products(cases);
  return cases;
}

}  // namespace npugraph
