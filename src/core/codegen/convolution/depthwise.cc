// SPDX-License-Identifier: Apache-2.0
#include "codegen/convolution/depthwise.h"

#include <algorithm>

#include "codegen/matmul/copy.h"
#include "codegen/task/work_items.h"
#include "loop/task_parameters.h"

namespace npugraph::codegen {
namespace {

constexpr int64_t kMostDepthwiseLanes = 16;
constexpr int64_t kMostColumns = 256;  // pixels of the result
constexpr int64_t kFloat = sizeof(float);

class DepthwiseRun {
 public:
  DepthwiseRun(const DepthwisePlan& plan, const DepthwiseCode& code, const ng_call& call)
      : p_(plan), code_(code), call_(call) {
    for (uint32_t i = 2; i < call.num_buffers; ++i) ends_.push_back(call.buffers[i].data);
  }

  void run() const {
    const int64_t each = p_.piece[0] * p_.piece[1] * p_.image.taps() * p_.lanes;
    for_items(*call_.host, p_.items(), each, [this](int64_t item) { run_piece(item); });
  }

 private:
  // A piece of the result.
  struct Piece : Pixels {
    int64_t batch = 0, channel = 0, channels = 0;
  };

  Piece piece(int64_t item) const {
    Piece made{take_pixels(item, p_.out, p_.piece)};
    made.channel = item % p_.blocks() * p_.lanes;
    made.channels = std::min(p_.lanes, p_.channels - made.channel);
    made.batch = item / p_.blocks();
    return made;
  }

  void run_piece(int64_t item) const {
    alignas(64) float window[loop::kDepthwiseWindow * kMostDepthwiseLanes];
    alignas(64) float weights[loop::kDepthwiseTaps * kMostDepthwiseLanes];
    alignas(64) float first[kMostDepthwiseLanes] = {};
    alignas(64) float sums[(kMostColumns + kDirectVectors) * kMostDepthwiseLanes];
    const Piece made = piece(item);
    copy_weights(made, weights);
    if (p_.bias) {
      const char* bias = static_cast<const char*>(ends_.front()) + made.channel * size_of(p_.dtype);
      copy_elements(bias, p_.dtype, size_of(p_.dtype), made.channels, first, DType::kF32, p_.lanes);
    }
    copy_window(made, window);
    const int64_t row = p_.window[1] * p_.lanes, step = p_.image.step[1] * p_.lanes;
    for (int64_t y = 0; y < made.size[0]; ++y) {
      const float* from = window + y * p_.image.step[0] * row;
      for (int64_t x = 0; x < made.size[1]; x += kDirectVectors) {
        const int64_t at = std::max<int64_t>(std::min(x, made.size[1] - kDirectVectors), 0);
        code_.tile(from + at * step, p_.offsets.data(), weights, p_.image.taps(), first, step * kFloat,
                   sums + at * p_.lanes, p_.lanes * kFloat);
      }
      write(made, y, sums);
    }
  }

  // weights: [tap][channel].
  void copy_weights(const Piece& made, float* weights) const {
    const int64_t taps = p_.image.taps(), size = size_of(p_.dtype);
    float of_channel[loop::kDepthwiseTaps];
    for (int64_t c = 0; c < p_.lanes; ++c) {
      const int64_t channel = made.channel + std::min(c, made.channels - 1);
      const char* from = static_cast<const char*>(call_.buffers[0].data) + channel * taps * size;
      copy_elements(from, p_.dtype, size, taps, of_channel, DType::kF32, taps);
      for (int64_t t = 0; t < taps; ++t) weights[t * p_.lanes + c] = of_channel[t];
    }
  }

  void copy_pixels(const char* from, const Piece& made, int64_t count, float* to) const {
    const int64_t stride = p_.image.strides[2];
    if (code_.copy != nullptr)
      return code_.copy(from, stride, count, 0, made.channels, p_.lanes, to, p_.lanes * kFloat);
    for (int64_t x = 0; x < count; ++x, from += stride, to += p_.lanes)
      copy_elements(from, p_.dtype, size_of(p_.dtype), made.channels, to, DType::kF32, p_.lanes);
  }

  // to: [row][pixel][channel].
  void copy_window(const Piece& made, float* to) const {
    const Image& image = p_.image;
    const char* from = static_cast<const char*>(call_.buffers[1].data) + made.batch * p_.batch_stride;
    const int64_t top = made.first[0] * image.step[0] - image.padding[0];
    const int64_t left = made.first[1] * image.step[1] - image.padding[1];
    const int64_t rows = (made.size[0] - 1) * image.step[0] + (image.kernel[0] - 1) * image.dilation[0] + 1;
    for (int64_t r = 0; r < rows; ++r, to += p_.window[1] * p_.lanes) {
      const int64_t y = top + r;
      const bool inside = y >= 0 && y < image.size[0];
      const int64_t begin = inside ? std::clamp<int64_t>(-left, 0, p_.window[1]) : p_.window[1];
      const int64_t end = std::clamp(image.size[1] - left, begin, p_.window[1]);
      std::fill_n(to, begin * p_.lanes, 0.0f);
      const char* pixels = from + y * image.strides[1] + (left + begin) * image.strides[2];
      copy_pixels(pixels + made.channel * size_of(p_.dtype), made, end - begin, to + begin * p_.lanes);
      std::fill_n(to + end * p_.lanes, (p_.window[1] - end) * p_.lanes, 0.0f);
    }
  }

  void write(const Piece& made, int64_t y, const float* sums) const {
    const int64_t pixel = (made.batch * p_.out[0] + made.first[0] + y) * p_.out[1] + made.first[1];
    if (code_.epilogue != nullptr)
      return code_.epilogue(sums, p_.lanes, made.size[1], made.channels, pixel, made.channel, ends_.data(),
                            call_.scalars);
    const int64_t size = size_of(p_.dtype);
    char* to = static_cast<char*>(ends_.back()) + (pixel * p_.channels + made.channel) * size;
    code_.store(sums, p_.lanes, made.size[1], made.channels, to, p_.channels * size);
  }

  const DepthwisePlan& p_;
  const DepthwiseCode& code_;
  const ng_call& call_;
  std::vector<void*> ends_;
};

// Sets the window of the piece. Returns whether it has at most `most` pixels.
bool fit_depthwise_window(DepthwisePlan& plan, int64_t most) {
  const Image& image = plan.image;
  const std::array<int64_t, 2> pixels = {plan.piece[0], std::max<int64_t>(plan.piece[1], kDirectVectors)};
  for (size_t d = 0; d < 2; ++d)
    plan.window[d] = (pixels[d] - 1) * image.step[d] + (image.kernel[d] - 1) * image.dilation[d] + 1;
  return plan.window[0] * plan.window[1] <= most;
}

}  // namespace

bool complete(DepthwisePlan& plan, const target::Target& target) {
  plan.lanes = target.lanes(DType::kF32);
  const int64_t rows = std::max<int64_t>(plan.out[0], 1), columns = std::max<int64_t>(plan.out[1], 1);
  plan.piece = {rows, divide_up(columns, divide_up(columns, kMostColumns))};
  while (!fit_depthwise_window(plan, loop::kDepthwiseWindow) && plan.piece[0] > 1)
    plan.piece[0] = std::min(divide_up(rows, divide_up(rows, plan.piece[0]) + 1), plan.piece[0] - 1);
  while (!fit_depthwise_window(plan, loop::kDepthwiseWindow) && plan.piece[1] > kDirectVectors)
    plan.piece[1] = std::max<int64_t>(divide_up(plan.piece[1], 2), kDirectVectors);
  if (!fit_depthwise_window(plan, loop::kDepthwiseWindow) || plan.image.taps() > loop::kDepthwiseTaps) return false;

  for (int64_t ky = 0; ky < plan.image.kernel[0]; ++ky) {
    for (int64_t kx = 0; kx < plan.image.kernel[1]; ++kx) {
      const int64_t pixel = ky * plan.image.dilation[0] * plan.window[1] + kx * plan.image.dilation[1];
      plan.offsets.push_back(pixel * plan.lanes * kFloat);
    }
  }
  return true;
}

void run_depthwise(const DepthwisePlan& plan, const DepthwiseCode& code, const ng_call& call) {
  if (plan.items() != 0) DepthwiseRun(plan, code, call).run();
}

}  // namespace npugraph::codegen
