// SPDX-License-Identifier: Apache-2.0
#include "codegen/convolution/convolution.h"

#include <array>
#include <memory>

#include <gtest/gtest.h>

#include "base/error.h"
#include "codegen/matmul/matmul_testing.h"
#include "loop/builder.h"

namespace npugraph::codegen {
namespace {

struct Case {
  DType dtype = DType::kF32;
  int64_t batches = 1, in = 3, out = 8, groups = 1;
  std::vector<int64_t> image = {9, 11}, kernel = {3, 3}, stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  bool bias = false;
  bool channels_last = false;  // layout of the image
  bool result_last = false;

  int64_t size(size_t d) const {
    return (image[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1;
  }
  ConvolutionSpec spec() const { return {{bias, result_last, groups, stride, padding, dilation}, dtype, {}}; }
};

Sizes dense_strides(const Sizes& sizes) {
  Sizes strides(sizes.size());
  int64_t next = 1;
  for (size_t d = sizes.size(); d-- > 0; next *= std::max<int64_t>(sizes[d], 1)) strides[d] = next;
  return strides;
}

Sizes image_strides(bool channels_last, const Sizes& sizes) {
  Sizes strides = dense_strides(sizes);
  if (!channels_last) return strides;
  strides[1] = 1;
  for (size_t d = 2; d < sizes.size(); ++d) strides[d] *= sizes[1];
  return strides;
}

struct Operands {
  explicit Operands(const Case& x) {
    Sizes weight_sizes = {x.out, x.in / x.groups}, image_sizes = {x.batches, x.in}, out_sizes = {x.batches, x.out};
    for (size_t d = 0; d < x.image.size(); ++d) {
      weight_sizes.push_back(x.kernel[d]);
      image_sizes.push_back(x.image[d]);
      out_sizes.push_back(x.size(d));
    }
    weights = std::make_unique<Tensor>(x.dtype, weight_sizes, dense_strides(weight_sizes));
    image = std::make_unique<Tensor>(x.dtype, image_sizes, image_strides(x.channels_last, image_sizes));
    bias = std::make_unique<Tensor>(x.dtype, Sizes{x.out}, Sizes{1});
    out = std::make_unique<Tensor>(x.dtype, out_sizes, image_strides(x.result_last, out_sizes));
    weights->fill(1);
    image->fill(2);
    bias->fill(3);
    out->poison();
  }
  std::vector<const Tensor*> tensors(const Case& x) const {
    if (x.bias) return {weights.get(), image.get(), bias.get(), out.get()};
    return {weights.get(), image.get(), out.get()};
  }

  std::unique_ptr<Tensor> weights, image, bias, out;
};

// Returns element `d` of a list with one element for each of two dimensions. A list with one element has only the last
// dimension; `otherwise` stands for the first.
int64_t of(const std::vector<int64_t>& list, size_t d, int64_t otherwise) {
  return d + list.size() >= 2 ? list[d + list.size() - 2] : otherwise;
}

// What the sums of a convolution read, as numbers.
struct Numbers {
  explicit Numbers(const Operands& t)
      : weights(t.weights->numbers()), image(t.image->numbers()), bias(t.bias->numbers()) {}

  std::vector<double> weights, image, bias;
};

Sizes index(size_t rank, int64_t a, int64_t b, int64_t y, int64_t x) {
  return rank == 2 ? Sizes{a, b, y, x} : Sizes{a, b, x};
}

double expected(const Case& c, const Numbers& t, int64_t n, int64_t o, int64_t y, int64_t x) {
  const int64_t channels = c.in / c.groups, first = o / (c.out / c.groups) * channels;
  const int64_t rows = of(c.kernel, 0, 1), columns = of(c.kernel, 1, 1);
  const int64_t height = of(c.image, 0, 1), width = of(c.image, 1, 1);
  const int64_t step_y = of(c.dilation, 0, 1), step_x = of(c.dilation, 1, 1);
  const int64_t first_y = y * of(c.stride, 0, 1) - of(c.padding, 0, 0);
  const int64_t first_x = x * of(c.stride, 1, 1) - of(c.padding, 1, 0);
  double sum = c.bias ? t.bias[o] : 0;
  for (int64_t i = 0; i < channels; ++i) {
    const double* weights = t.weights.data() + (o * channels + i) * rows * columns;
    const double* image = t.image.data() + (n * c.in + first + i) * height * width;
    for (int64_t ky = 0; ky < rows; ++ky) {
      for (int64_t kx = 0; kx < columns; ++kx) {
        const int64_t py = first_y + ky * step_y, px = first_x + kx * step_x;
        if (py >= 0 && px >= 0 && py < height && px < width) sum += weights[ky * columns + kx] * image[py * width + px];
      }
    }
  }
  return sum;
}

double tolerance_of(DType dtype) {
  if (dtype == DType::kF32) return 1e-5;
  return dtype == DType::kF16 ? 2e-3 : 1e-2;
}

void check(const Case& c, const target::Target& target) {
  SCOPED_TRACE(cat(target.level, " ", name_of(c.dtype), " in ", c.in, " out ", c.out, " groups ", c.groups, " image ",
                   c.image.back(), " kernel ", c.kernel.back(), " stride ", c.stride.back()));
  const Operands t(c);
  run_task(make_convolution(c.spec(), target), t.tensors(c), 2);
  const Numbers numbers(t);
  const size_t rank = c.image.size();
  const double tolerance = tolerance_of(c.dtype);
  for (int64_t n = 0; n < c.batches; ++n) {
    for (int64_t o = 0; o < c.out; ++o) {
      for (int64_t y = 0; y < (rank == 2 ? c.size(0) : 1); ++y) {
        for (int64_t x = 0; x < c.size(rank - 1); ++x) {
          const double want = expected(c, numbers, n, o, y, x);
          ASSERT_NEAR(t.out->value(index(rank, n, o, y, x)), want, tolerance * (1 + std::abs(want)))
              << n << " " << o << " " << y << " " << x;
        }
      }
    }
  }
}

std::vector<DType> elements_of(const target::Target& target) {
  if (!target.f16c) return {DType::kF32, DType::kBF16};
  return {DType::kF32, DType::kBF16, DType::kF16};
}

void check_everywhere(const std::vector<Case>& cases) {
  for (const target::Target& target : target::host_targets()) {
    for (Case c : cases) {
      for (const DType dtype : elements_of(target)) {
        c.dtype = dtype;
        check(c, target);
      }
    }
  }
}

void expect_same_for_any_threads(const Case& c) {
  std::vector<char> first;
  for (const int32_t workers : {1, 2, 3}) {
    const Operands t(c);
    run_task(make_convolution(c.spec(), target::host_target()), t.tensors(c), workers);
    if (first.empty()) first = t.out->bytes();
    EXPECT_EQ(t.out->bytes(), first);
  }
}

TEST(Convolution, EqualsTheSumsInDoublePrecision) {
  const std::vector<Case> cases = {
      {},
      {.padding = {1, 1}, .bias = true},
      {.batches = 2, .in = 5, .out = 13, .stride = {2, 2}, .padding = {1, 1}, .bias = true},
      {.in = 16, .out = 32, .image = {14, 14}, .kernel = {1, 1}},
      // As many panels as a strip packs first at most, and more.
      {.in = 6, .out = 40, .image = {22, 22}, .kernel = {1, 1}},
      {.batches = 2, .in = 300, .out = 26, .image = {30, 33}, .kernel = {1, 1}, .bias = true},
      {.in = 300, .out = 600, .image = {9, 7}, .kernel = {1, 1}},  // work items of two tiles of rows
      {.in = 16, .out = 24, .image = {7, 7}, .kernel = {1, 1}, .stride = {2, 2}},
      {.in = 3, .out = 20, .image = {32, 32}, .kernel = {8, 8}, .stride = {8, 8}, .bias = true},
      {.batches = 2, .in = 8, .out = 16, .groups = 2, .padding = {1, 1}, .bias = true},
      {.in = 4, .out = 9, .image = {12, 10}, .padding = {4, 4}, .dilation = {2, 3}},
      {.in = 6, .out = 12, .image = {40}, .kernel = {3}, .stride = {2}, .padding = {1}, .dilation = {1}, .bias = true},
      {.in = 600, .out = 12, .image = {3, 3}, .padding = {1, 1}},
      {.in = 5, .out = 10, .padding = {1, 1}, .channels_last = true},
      {.in = 3, .out = 600, .image = {6, 6}, .padding = {1, 1}, .bias = true},
      {.in = 3, .out = 8, .image = {1, 1}, .padding = {1, 1}},
      {.in = 4, .out = 16, .image = {30, 33}, .padding = {1, 1}, .bias = true},  // more panels than are packed first
      {.batches = 2, .out = 8, .image = {60, 70}, .kernel = {5, 3}, .stride = {2, 2}, .padding = {2, 1}},
      {.batches = 0},
      {.in = 0, .bias = true},
  };
  check_everywhere(cases);
}

// Convolutions whose groups have few channels are computed directly.
TEST(Convolution, DirectOnesEqualTheSumsInDoublePrecision) {
  const std::vector<Case> cases = {
      {.in = 8, .out = 8, .groups = 8, .padding = {1, 1}},
      {.batches = 2,
       .in = 5,
       .out = 5,
       .groups = 5,
       .image = {14, 14},
       .kernel = {7, 7},
       .padding = {3, 3},
       .bias = true},
      {.in = 3, .out = 3, .groups = 3, .image = {56, 57}, .stride = {2, 2}, .padding = {1, 1}, .bias = true},
      {.in = 4, .out = 8, .groups = 4, .image = {7, 7}, .kernel = {5, 3}, .stride = {1, 2}, .padding = {2, 1}},
      {.in = 8, .out = 12, .groups = 2, .image = {20, 18}, .padding = {1, 1}, .bias = true},
      {.in = 6, .out = 6, .groups = 6, .image = {30, 25}, .padding = {4, 6}, .dilation = {2, 3}},
      {.in = 6, .out = 6, .groups = 6, .image = {30, 25}, .stride = {3, 3}, .padding = {2, 2}, .dilation = {1, 2}},
      {.in = 2, .out = 2, .groups = 2, .image = {3, 1200}, .padding = {1, 1}},
      {.in = 2, .out = 2, .groups = 2, .image = {150, 120}, .padding = {1, 1}, .bias = true},
      {.in = 16, .out = 5, .image = {9, 9}, .kernel = {1, 1}, .bias = true},
      {.in = 6, .out = 6, .groups = 6, .image = {300}, .kernel = {31}, .stride = {1}, .padding = {15}, .dilation = {1}},
      {.in = 4, .out = 4, .groups = 4, .image = {250}, .kernel = {4}, .stride = {2}, .padding = {3}, .dilation = {1}},
      {.batches = 2, .in = 6, .out = 6, .groups = 6, .image = {12, 9}, .padding = {1, 1}, .channels_last = true},
      {.in = 3, .out = 3, .groups = 3, .image = {1, 1}, .padding = {1, 1}},
      {.in = 2,
       .out = 2,
       .groups = 2,
       .image = {40, 40},
       .kernel = {33, 33},
       .padding = {3, 3}},  // more taps than a direct convolution may have
      {.batches = 0, .in = 4, .out = 4, .groups = 4},
  };
  check_everywhere(cases);
}

Case with_channels_last(Case c) {
  c.groups = c.out = c.in;
  c.channels_last = c.result_last = true;
  return c;
}

TEST(Convolution, DepthwiseOnesOfChannelsLastEqualTheSumsInDoublePrecision) {
  std::vector<Case> cases = {
      {.in = 16, .padding = {1, 1}},
      {.batches = 2, .in = 37, .image = {14, 14}, .kernel = {7, 7}, .padding = {3, 3}, .bias = true},
      {.in = 5, .image = {56, 57}, .stride = {2, 2}, .padding = {1, 1}, .bias = true},
      {.in = 20, .image = {7, 7}, .kernel = {5, 3}, .stride = {1, 2}, .padding = {2, 1}},
      {.in = 18, .image = {30, 25}, .stride = {3, 2}, .padding = {4, 6}, .dilation = {2, 3}},
      {.in = 2, .image = {5, 600}, .padding = {1, 1}},
      {.in = 3, .image = {2, 3}, .kernel = {1, 1}},
      {.in = 17, .image = {40, 60}, .kernel = {9, 9}, .padding = {4, 4}, .dilation = {2, 2}},
      {.batches = 0, .in = 4},
  };
  for (Case& c : cases) c = with_channels_last(c);
  check_everywhere(cases);
}

TEST(Convolution, OthersOfChannelsLastAreNotPlanned) {
  Case c{.in = 16, .out = 16, .channels_last = true, .result_last = true};
  const Operands t(c);
  EXPECT_EQ(try_task(make_convolution(c.spec(), target::host_target()), t.tensors(c), 1), NG_ERROR);
}

// relu((sums - mean[channel]) * scale[channel]) + residual, for two images of six channels.
loop::Kernel epilogue_of(DType dtype) {
  loop::Builder b("epilogue");
  const auto sums = b.in("sums", DType::kF32), mean = b.in("mean", dtype), scale = b.in("scale", dtype),
             residual = b.in("residual", dtype), y = b.out("y", dtype);
  const Expr pixels = b.scalar("pixels", ScalarKind::kInt);
  const auto in_float = [](const loop::Value& v) { return loop::cast(v, DType::kF32); };
  b.serial_for(12, [&](const Expr& row) {
    const Expr channel = Expr::make(ExprOp::kMod, {row, 6});
    const loop::Value m = in_float(b.load(mean, channel)), s = in_float(b.load(scale, channel));
    b.vector_for(pixels, [&](const Expr& i) {
      const Expr at = row * pixels + i;
      const loop::Value sum = loop::max((b.load(sums, at) - m) * s, b.constant(DType::kF32, 0.0));
      b.store(y, at, loop::cast(sum + in_float(b.load(residual, at)), dtype));
    });
  });
  return b.finish();
}

void check_epilogue(Case c, const target::Target& target) {
  c.batches = 2;
  c.in = c.out = 6;
  SCOPED_TRACE(cat(target.level, " ", name_of(c.dtype), " groups ", c.groups));
  const Operands t(c);
  Tensor mean(c.dtype, {6}, {1}), scale(c.dtype, {6}, {1});
  Tensor residual(c.dtype, t.out->sizes(), dense_strides(t.out->sizes()));
  mean.fill(5);
  scale.fill(6);
  residual.fill(7);
  ConvolutionSpec spec = c.spec();
  spec.epilogue = epilogue_of(c.dtype);
  ng_scalar pixels{};
  pixels.i = c.size(0) * c.size(1);
  run_task(make_convolution(spec, target), {t.weights.get(), t.image.get(), &mean, &scale, &residual, t.out.get()}, 2,
           {pixels});
  const Numbers numbers(t);
  const double tolerance = tolerance_of(c.dtype);
  for (int64_t n = 0; n < c.batches; ++n) {
    for (int64_t o = 0; o < c.out; ++o) {
      for (int64_t y = 0; y < c.size(0); ++y) {
        for (int64_t x = 0; x < c.size(1); ++x) {
          const double sum = (expected(c, numbers, n, o, y, x) - mean.value({o})) * scale.value({o});
          const double want = std::max(sum, 0.0) + residual.value({n, o, y, x});
          ASSERT_NEAR(t.out->value({n, o, y, x}), want, tolerance * (1 + std::abs(want))) << n << " " << o << " " << y;
        }
      }
    }
  }
}

TEST(Convolution, EpiloguesWorkOnTheSums) {
  for (const target::Target& target : target::host_targets()) {
    for (const int64_t groups : {1, 6}) {
      for (const DType dtype : elements_of(target)) {
        check_epilogue({.dtype = dtype, .groups = groups, .padding = {1, 1}}, target);
        check_epilogue({.dtype = dtype, .groups = groups, .image = {13, 40}, .stride = {2, 1}}, target);
      }
    }
  }
}

TEST(Convolution, DirectOnesDoNotDependOnTheNumberOfThreads) {
  expect_same_for_any_threads(with_channels_last({.batches = 2, .in = 40, .image = {20, 20}, .padding = {1, 1}}));
  expect_same_for_any_threads({.batches = 2, .in = 40, .out = 40, .groups = 40, .image = {20, 20}, .padding = {1, 1}});
}

TEST(Convolution, DoesNotDependOnTheNumberOfThreads) {
  expect_same_for_any_threads({.batches = 2, .in = 40, .out = 50, .image = {20, 20}, .padding = {1, 1}, .bias = true});
}

TEST(Convolution, RefusesOtherElements) {
  EXPECT_THROW(make_convolution(Case{.dtype = DType::kF64}.spec(), target::host_target()), UserError);
  for (const target::Target& target : target::host_targets()) {
    if (target.f16c) continue;
    EXPECT_THROW(make_convolution(Case{.dtype = DType::kF16}.spec(), target), UserError);
  }
}

}  // namespace
}  // namespace npugraph::codegen
