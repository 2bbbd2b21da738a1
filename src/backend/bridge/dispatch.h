// SPDX-License-Identifier: Apache-2.0
// The dispatch state in which our operators run.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace npugraph::bridge {

// Dispatch keys whose work the front end has already done.
inline constexpr c10::DispatchKeySet kDoneByFrontEnd = c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                                       c10::autocast_dispatch_keyset |
                                                       c10::DispatchKeySet(c10::DispatchKey::Functionalize);
inline constexpr c10::DispatchKeySet kPythonKeys({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                                                  c10::DispatchKey::PythonDispatcher});

// While alive, operators of the calling thread go directly to their kernels. `may_be_python` leaves Python's dispatch
// keys on: kernels written in Python may compile functions themselves.
class BelowAutograd {
 public:
  explicit BelowAutograd(bool may_be_python = false)
      : guard_(may_be_python ? kDoneByFrontEnd : kDoneByFrontEnd | kPythonKeys) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

}  // namespace npugraph::bridge
