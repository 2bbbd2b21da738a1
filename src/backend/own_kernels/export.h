// SPDX-License-Identifier: Apache-2.0
// Visibility of the names that npugraph._ascend, the module with Ascend's operators, takes from npugraph._C, whose
// other names are hidden.
#pragma once

#define NPUGRAPH_EXPORT __attribute__((visibility("default")))
