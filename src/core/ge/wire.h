// SPDX-License-Identifier: Apache-2.0
// Reads serialised ge.proto.ModelDef messages: the contents of `.air` files.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "ge/model.h"

namespace npugraph::ge {

// For constants whose elements are in files of their own, as in models that are larger than protobuf allows. Makes each
// operator of type FileConstant one of type Const with the bytes of its file, which is mapped. Paths are relative to
// `folder`. UserError that names the operator if it lacks an attribute or its file cannot be read.
void map_file_constants(Model& model, const std::string& folder);

// `bytes` must stay alive as long as `owner`. Fields that the engine does not read are skipped, known or not. UserError
// if the bytes are no ModelDef; the message names `source`, the message of ge.proto that was being read, and the
// reason.
Model parse_model(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& source);

// Maps the file, and the files of its constants that are beside it. UserError as above, or if a file cannot be read.
Model read_model(const std::string& path);

}  // namespace npugraph::ge
