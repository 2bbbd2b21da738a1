// SPDX-License-Identifier: Apache-2.0
// One function per family of operators, each in a file of its own name.
#pragma once

#include "torch/npu_ops/framework/definitions.h"

namespace npugraph::npu_ops {

void define_compression(Definitions& npu);
void define_formats(Definitions& npu);
void define_indexing(Definitions& npu);
void define_marks(Definitions& npu);
void define_obfuscation(Definitions& npu);
void define_sampling(Definitions& npu);
void define_scatter(Definitions& npu);
void define_shapes(Definitions& npu);
void define_spectra(Definitions& npu);
void define_tensor_dumps(Definitions& npu);

}  // namespace npugraph::npu_ops
