// SPDX-License-Identifier: Apache-2.0
// Reads serialised ge.proto.ModelDef messages: the contents of `.air` files.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "ge/model.h"

namespace npugraph::ge {

// `bytes` must stay alive as long as `owner`. Fields that the engine does not read are skipped, known or not. UserError
// if the bytes are no ModelDef; the message names `source`, the message of ge.proto that was being read, and the
// reason.
Model parse_model(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& source);

// Maps the file, and the files of its constants that are beside it. UserError as above, or if a file cannot be read.
Model read_model(const std::string& path);

}  // namespace npugraph::ge
