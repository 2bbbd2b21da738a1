// SPDX-License-Identifier: Apache-2.0
// Models, tensors and memory for tests of the engine's API.
#pragma once

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "ge/api/ge_api.h"
#include "ge/model_builder.h"

namespace npugraph::ge {

using Tensors = std::vector<::ge::Tensor>;

// The engine is initialised during each test.
class EngineApi : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::ge::GEInitialize({}), ::ge::SUCCESS); }
  void TearDown() override { ASSERT_EQ(::ge::GEFinalize(), ::ge::SUCCESS) << ::ge::GEGetErrorMsg(); }
};

#define EXPECT_OK(call) EXPECT_EQ(call, ::ge::SUCCESS) << ::ge::GEGetErrorMsg()
#define ASSERT_OK(call) ASSERT_EQ(call, ::ge::SUCCESS) << ::ge::GEGetErrorMsg()
// The status, and a part of the message.
#define EXPECT_FAILS(call, status, part)                                        \
  do {                                                                          \
    EXPECT_EQ(call, ::ge::status);                                              \
    const std::string message = ::ge::GEGetErrorMsg();                          \
    EXPECT_NE(message.find(part), std::string::npos) << "message: " << message; \
  } while (false)

inline std::vector<float> sines(int64_t count, float step) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(step * static_cast<float>(i));
  return values;
}

inline ::ge::Tensor tensor(const std::vector<int64_t>& dims, const std::vector<float>& values) {
  return {::ge::TensorDesc(::ge::Shape(dims)), reinterpret_cast<const uint8_t*>(values.data()), values.size() * 4};
}

inline std::vector<float> floats(const ::ge::Tensor& tensor) {
  std::vector<float> values(tensor.GetSize() / 4);
  std::memcpy(values.data(), tensor.GetData(), values.size() * 4);
  return values;
}

// Graphs with known and with unknown sizes may be other code, which sums in another order.
inline void expect_close(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5F) << "element " << i;
}

inline ::ge::Graph graph_of_ops(const std::vector<Op>& ops) {
  const std::string bytes = serialise(ops);
  ::ge::Graph graph;
  EXPECT_OK(graph.LoadFromSerializedModelArray(bytes.data(), bytes.size()));
  return graph;
}

// Attributes of the engine: a list of texts, in a descriptor and in the graph.
inline Message with_texts(const Message& message, uint32_t field, const std::string& name,
                          const std::vector<std::string>& texts, const std::vector<int64_t>& numbers = {}) {
  Message list;
  for (const std::string& text : texts) list.text(2, text);
  list.with([&](pbf_writer& w) { w.add_packed_int64(3, numbers.begin(), numbers.end()); });
  Message result = message;
  result.message(field, Message().text(1, name).message(2, Message().message(1, list)));
  return result;
}

// An input whose elements the graph reads with these strides.
inline Op strided_data(const std::string& type, const std::string& name, int64_t index,
                       const std::vector<int64_t>& dims, const std::vector<std::string>& strides) {
  const Message plain = desc("y", WireType::kFloat, dims);
  return Op(type, name).attr("index", index).output(with_texts(plain, 5, "_npugraph_strides", strides));
}

// y = softmax(relu(x w + b) v) for `rows` rows of 16 elements, -1 for any number of them.
inline ::ge::Graph perceptron(int64_t rows) {
  return graph_of_ops(
      {data("x", 0, {rows, 16}), constant("w", WireType::kFloat, {16, 64}, sines(16 * 64, 0.3f)),
       constant("b", WireType::kFloat, {64}, sines(64, 0.7f)),
       constant("v", WireType::kFloat, {64, 24}, sines(64 * 24, 0.2f)), Op("MatMulV2", "h", {"x:0", "w:0", "b:0"}),
       Op("Relu", "a", {"h:0"}), Op("MatMulV2", "z", {"a:0", "v:0"}),
       Op("SoftmaxV2", "y", {"z:0"}).attr("axes", std::vector<int64_t>{-1}), Op("NetOutput", "out", {"y:0"})});
}

inline ::ge::Tensor rows_of(int64_t rows) { return tensor({rows, 16}, sines(rows * 16, 0.1f)); }

// The graph's result in a session of its own, with memory of the engine.
inline std::vector<float> result_of(const ::ge::Graph& graph, const Tensors& inputs) {
  ::ge::Session session({});
  EXPECT_OK(session.AddGraph(0, graph));
  Tensors outputs;
  EXPECT_OK(session.RunGraph(0, inputs, outputs));
  return outputs.empty() ? std::vector<float>() : floats(outputs[0]);
}

// Exactly `bytes` bytes between two pages that nobody may touch: at the end of their pages, or at the begin.
class GuardedMemory {
 public:
  enum class Place { kBegin, kEnd };

  GuardedMemory(size_t bytes, Place place) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))), bytes_(bytes) {
    mapped_ = (bytes + page_ - 1) / page_ * page_;
    void* all = mmap(nullptr, mapped_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(all, MAP_FAILED);
    pages_ = static_cast<std::byte*>(all) + page_;
    protect(PROT_READ | PROT_WRITE);
    data_ = place == Place::kBegin ? pages_ : pages_ + mapped_ - bytes;
  }
  ~GuardedMemory() { munmap(pages_ - page_, mapped_ + 2 * page_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  void protect(int rights) { EXPECT_EQ(mprotect(pages_, mapped_, rights), 0); }
  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  size_t page_;
  size_t bytes_;
  size_t mapped_ = 0;
  std::byte* pages_ = nullptr;
  std::byte* data_ = nullptr;
};

// Blocks at odd addresses, which it counts.
class CountingAllocator : public ::ge::Allocator {
 public:
  ::ge::MemBlock* Malloc(size_t size) override {
    std::lock_guard lock(mutex_);
    asked += static_cast<int64_t>(size);
    auto* block = new ::ge::MemBlock(*this, static_cast<std::byte*>(std::malloc(size + 8)) + 8, size);
    live_.insert(block);
    return block;
  }
  void Free(::ge::MemBlock* block) override {
    std::lock_guard lock(mutex_);
    EXPECT_EQ(live_.erase(block), 1u);
    std::free(static_cast<std::byte*>(block->GetAddr()) - 8);
    delete block;
  }
  size_t live() {
    std::lock_guard lock(mutex_);
    return live_.size();
  }

  std::atomic<int64_t> asked = 0;

 private:
  std::mutex mutex_;
  std::set<::ge::MemBlock*> live_;
};

}  // namespace npugraph::ge
