// SPDX-License-Identifier: Apache-2.0
// Constants whose elements are in files of their own, as in models that are larger than protobuf allows.
#pragma once

#include <string>

#include "ge/model.h"

namespace npugraph::ge {

// Makes each operator of type FileConstant one of type Const with the bytes of its file, which is mapped. Paths are
// relative to `folder`. UserError that names the operator if it lacks an attribute or its file cannot be read.
void map_file_constants(Model& model, const std::string& folder);

}  // namespace npugraph::ge
