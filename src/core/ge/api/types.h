// SPDX-License-Identifier: Apache-2.0
// The small types of the engine's C++ API. Names and numbers are those of Ascend's graph engine, unless the comment of
// a constant says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace ge {

// Result of a call. GEGetErrorMsg() has the text. The values of all but SUCCESS and FAILED are of this engine.
using Status = uint32_t;
inline constexpr Status SUCCESS = 0;
inline constexpr Status FAILED = 0xFFFFFFFF;        // no memory, or a task of a run failed
inline constexpr Status PARAM_INVALID = 1;          // an argument is not allowed
inline constexpr Status GE_NOT_INITIALIZED = 2;     // GEInitialize() has to come first
inline constexpr Status GE_SESSIONS_EXIST = 3;      // GEFinalize() while sessions exist
inline constexpr Status GE_GRAPH_NOT_EXIST = 4;     // AddGraph() has to come first
inline constexpr Status GE_GRAPH_EXISTS = 5;        // AddGraph() with the id of a graph of the session
inline constexpr Status GE_GRAPH_INVALID = 6;       // the model cannot be compiled
inline constexpr Status GE_GRAPH_NOT_COMPILED = 7;  // CompileGraph() or BuildGraph() has to come first
inline constexpr Status GE_GRAPH_NOT_LOADED = 8;    // LoadGraph() on this stream has to come first
inline constexpr Status GE_GRAPH_NOT_STATIC = 9;    // memory of a graph whose sizes only a run tells
inline constexpr Status GE_STREAM_INVALID = 10;     // not a Stream that exists
inline constexpr Status GE_IN_CALLBACK = 11;        // a call that waits for runs, in a callback that they wait for

class AscendString {
 public:
  AscendString() = default;
  AscendString(const char* text) : text_(text == nullptr ? "" : text) {}  // NOLINT: converts, as the original does
  AscendString(const char* text, size_t length) : text_(text, length) {}

  const char* GetString() const { return text_.c_str(); }
  size_t GetLength() const { return text_.size(); }
  auto operator<=>(const AscendString&) const = default;

 private:
  std::string text_;
};

enum DataType : int32_t {
  DT_FLOAT = 0,
  DT_FLOAT16 = 1,
  DT_INT8 = 2,
  DT_INT32 = 3,
  DT_UINT8 = 4,
  DT_INT16 = 6,
  DT_UINT16 = 7,
  DT_UINT32 = 8,
  DT_INT64 = 9,
  DT_UINT64 = 10,
  DT_DOUBLE = 11,
  DT_BOOL = 12,
  DT_STRING = 13,
  DT_COMPLEX64 = 16,
  DT_COMPLEX128 = 17,
  DT_BF16 = 27,
  DT_UNDEFINED = 28,
  DT_COMPLEX32 = 33,
  DT_FLOAT8_E5M2 = 35,
  DT_FLOAT8_E4M3FN = 36,
};

enum Format : int32_t { FORMAT_NCHW = 0, FORMAT_NHWC = 1, FORMAT_ND = 2 };

enum class MemoryType : int32_t { MEMORY_TYPE_DEFAULT = 0 };

}  // namespace ge
