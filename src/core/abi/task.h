// SPDX-License-Identifier: Apache-2.0
// The task ABI: the one call convention of everything that runs in a Program (generated code, precompiled kernels, ATen
// tasks, users' kernels). Free-standing C, so that generated code and other compilers can use it without our headers.
//
// A task is made from its definition once, when a Program is loaded, by an ng_make. It is a table of functions plus a
// context. `bind` is called when an Instance is made or its sizes change, `run` at every replay. One context may be
// bound and run by several Instances at once: all that changes during a run belongs in `state`. No function may throw
// or unwind.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Rises when a struct below changes its layout or meaning.
#define NG_TASK_ABI_VERSION 3u

// Element types. The numbers are part of the ABI and of every saved Program: append only.
typedef enum ng_dtype {
  NG_BOOL = 0,
  NG_U8 = 1,
  NG_I8 = 2,
  NG_I16 = 3,
  NG_I32 = 4,
  NG_I64 = 5,
  NG_F16 = 6,
  NG_BF16 = 7,
  NG_F32 = 8,
  NG_F64 = 9,
  NG_C32 = 10,
  NG_C64 = 11,
  NG_C128 = 12,
  NG_U16 = 13,
  NG_U32 = 14,
  NG_U64 = 15,
  NG_F8E4M3FN = 16,
  NG_F8E5M2 = 17,
  NG_F8E4M3FNUZ = 18,
  NG_F8E5M2FNUZ = 19,
  NG_F8E8M0FNU = 20,
} ng_dtype;

typedef enum ng_status {
  NG_OK = 0,
  NG_ERROR = 1,  // the task failed; ng_host::set_error was called or the host keeps the exception
} ng_status;

// Flag of a buffer: no later task reads it and its address is a multiple of 64 bytes, so the task may reuse its memory
// after reading it.
#define NG_BUFFER_DIES 1u

// A strided view of memory. Sizes and strides are in elements. `data` points at the first element of the view and may
// be null when the view has no elements.
typedef struct ng_buffer {
  void* data;
  // The host's object behind `data`. A task that allocates an output itself (a heap buffer) stores `data` and one owned
  // reference here; the runtime gives the reference back when the buffer dies. Also carries values that are not strided
  // memory (opaque buffers: sparse, quantised), for which `data` is null. Borrowed for inputs.
  void* object;
  const int64_t* sizes;
  const int64_t* strides;
  int32_t rank;
  int32_t dtype;
  uint32_t flags;     // fixed while the task is bound
  uint32_t reserved;  // 0
} ng_buffer;

// An integer, a boolean (0 or 1 in `i`), or a floating-point number; the task knows which from its own signature.
typedef union ng_scalar {
  int64_t i;
  double f;
} ng_scalar;

// Services of the runtime, valid during `run` only.
typedef struct ng_host {
  void* self;
  int32_t workers;  // how many threads parallel_for may use, at least 1; results must not depend on it
  // Calls body(arg, first, last) for disjoint ranges that cover [begin, end), each of at least `grain` indices but the
  // last; returns when all are done. Nested calls run in the calling thread.
  void (*parallel_for)(const struct ng_host* host, int64_t begin, int64_t end, int64_t grain,
                       void (*body)(void* arg, int64_t begin, int64_t end), void* arg);
  // Copies `message`. To be followed by `return NG_ERROR`.
  void (*set_error)(const struct ng_host* host, const char* message);
  // Adds to the bytes that the run copied and that no operand declares: staging of arguments and results.
  void (*count_copied)(const struct ng_host* host, int64_t bytes);
} ng_host;

typedef struct ng_call {
  ng_buffer* buffers;        // one per operand, in the order of the Program's task
  const ng_scalar* scalars;  // values of the task's symbolic arguments
  ng_scalar* defined;        // out: symbols that this task defines (data-dependent sizes, item)
  void* workspace;           // 64-byte aligned scratch of the size that `workspace` asked for, or null
  const ng_host* host;       // null while binding
  uint32_t num_buffers;
  uint32_t num_scalars;
  uint32_t num_defined;
  uint32_t abi_version;
} ng_call;

typedef struct ng_task {
  void* context;
  // Required. Runs the task. On NG_ERROR the runtime takes over nothing that the task stored in ng_buffer::object: the
  // task frees it.
  ng_status (*run)(void* context, void* state, ng_call* call);
  // Optional. Makes or updates `*state` (null the first time) for the sizes, strides and scalars in `call`; data
  // pointers may still change between runs.
  ng_status (*bind)(void* context, const ng_call* call, void** state);
  // Optional, required with bind. Frees a state.
  void (*unbind)(void* context, void* state);
  // Optional. Bytes of workspace for the sizes in `call`; no function means none.
  int64_t (*workspace)(void* context, const ng_call* call);
  // Optional. Frees the context, once, after every state is gone.
  void (*destroy)(void* context);
} ng_task;

typedef enum ng_access {
  NG_READ = 0,
  NG_WRITE = 1,
  NG_READ_WRITE = 2,
} ng_access;

// The facts about an operand that do not depend on sizes.
typedef struct ng_operand {
  int32_t dtype;   // ng_dtype
  int32_t access;  // ng_access
  int32_t rank;
  uint32_t reserved;  // 0
} ng_operand;

typedef enum ng_value_kind {
  NG_VALUE_NONE = 0,     // nothing was given
  NG_VALUE_OPERAND = 1,  // a tensor: `number.i` is the index of its operand
  NG_VALUE_INT = 2,      // `number.i`
  NG_VALUE_FLOAT = 3,    // `number.f`
  NG_VALUE_BOOL = 4,     // `number.i`, 0 or 1
  NG_VALUE_DTYPE = 5,    // `number.i`, an ng_dtype
  NG_VALUE_TEXT = 6,     // `text`
  NG_VALUE_OTHER = 7,    // known to torch only: a complex number, a device, a layout or a memory format
} ng_value_kind;

typedef struct ng_value {
  int32_t kind;  // ng_value_kind
  // For integers, floating-point numbers and booleans: the index in ng_call::scalars if the value comes with each call;
  // -1 if `number` is the value.
  int32_t scalar;
  ng_scalar number;
  const char* text;  // ends with 0
} ng_value;

// An argument of the operator that a task computes, in the order of its schema: a value, or a list of them.
typedef struct ng_attribute {
  const ng_value* values;
  uint32_t count;    // 1 unless it is a list
  uint32_t is_list;  // 0 or 1
} ng_attribute;

// The definition from which a task is made.
typedef struct ng_definition {
  const char* name;  // "kernel.copy"
  const ng_operand* operands;
  const ng_attribute* attributes;
  uint32_t num_operands;
  uint32_t num_attributes;
  uint32_t abi_version;
  uint32_t reserved;  // 0
} ng_definition;

// Makes a task. `definition` is read during the call only. On NG_ERROR there is no task, and the function has called
// `refuse(reason, message)`, which copies the message, to say why. May not throw or unwind.
typedef ng_status (*ng_make)(const ng_definition* definition, ng_task* task,
                             void (*refuse)(void* reason, const char* message), void* reason);

#ifdef __cplusplus
}
#endif
