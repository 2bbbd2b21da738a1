// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/python_headers.h>

namespace npugraph::bridge {

// Holds the GIL. Does nothing if no interpreter is initialised.
class Gil {
 public:
  Gil() {
    if (held_) state_ = PyGILState_Ensure();
  }
  ~Gil() {
    if (held_) PyGILState_Release(state_);
  }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  const bool held_ = Py_IsInitialized() != 0;
  PyGILState_STATE state_{};
};

}  // namespace npugraph::bridge
