// SPDX-License-Identifier: Apache-2.0
// In which dispatch state our operators run.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace npugraph::bridge {

// What the front end has already dealt with.
inline constexpr c10::DispatchKeySet kDoneByFrontEnd = c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                                       c10::autocast_dispatch_keyset |
                                                       c10::DispatchKeySet(c10::DispatchKey::Functionalize);
inline constexpr c10::DispatchKeySet kPythonKeys({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                                                  c10::DispatchKey::PythonDispatcher});

// While alive, operators of the calling thread go to their kernels directly. With `may_be_python` as far as kernels written in
// Python allow: these may compile functions themselves.
class BelowAutograd {
 public:
  explicit BelowAutograd(bool may_be_python = false)
      : guard_(may_be_python ? kDoneByFrontEnd : kDoneByFrontEnd | kPythonKeys) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

}  // namespace npugraph::bridge
