// SPDX-License-Identifier: Apache-2.0
// In which dispatch state our operators run.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace npugraph::bridge {

// What the front end has already dealt with: gradients, autocast, functionalisation, Python modes.
inline constexpr c10::DispatchKeySet kAboveKernels =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Functionalize, c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                         c10::DispatchKey::PythonDispatcher});

// While alive, operators of the calling thread go to their kernels directly.
class BelowAutograd {
  c10::impl::ExcludeDispatchKeyGuard guard_{kAboveKernels};
};

}  // namespace npugraph::bridge
