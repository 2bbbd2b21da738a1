// SPDX-License-Identifier: Apache-2.0
// What a shared library of users' kernels exports. Free-standing C; C++ code includes kernel.h, which defines it.
#pragma once

#include "task.h"

#ifdef __cplusplus
extern "C" {
#endif

// A kernel of a library of users.
typedef struct ng_kernel {
  const char* schema;  // of its operator, in torch's notation: "ns::name.overload(Tensor x, float scale) -> Tensor"
  ng_make make;
  // What the kernel takes, so that a library that does not fit its schemas is refused when it is loaded: the arguments
  // of the schema in order, then "result" for each result that is not an argument. The words are "Tensor" (read),
  // "Tensor!" (written), "int", "float", "bool", "str" and "ScalarType", with "?" if it may be absent, or "[]" for a
  // list. Null: not checked.
  const char* const* parameters;
  uint32_t num_parameters;
  uint32_t reserved;  // 0
} ng_kernel;

typedef struct ng_library {
  const ng_kernel* kernels;
  uint32_t num_kernels;
  uint32_t abi_version;
} ng_library;

// The type of the function that a library of kernels exports. What it returns must stay as it is while the library is
// loaded.
typedef const ng_library* (*ng_library_function)(void);
#define NG_LIBRARY_FUNCTION "npugraph_library"

#ifdef __cplusplus
}
#endif
