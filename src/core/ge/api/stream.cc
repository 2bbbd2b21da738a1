// SPDX-License-Identifier: Apache-2.0
#include "ge/api/stream.h"

#include <string>
#include <utility>

#include "ge/api/run/api_error.h"
#include "ge/api/run/stream_queue.h"

namespace ge {

Stream::Stream() : queue_(std::make_shared<npugraph::ge::StreamQueue>()) { npugraph::ge::add_stream(this, queue_); }

Stream::~Stream() {
  npugraph::ge::remove_stream(this);
  queue_->wait();
}

Status Stream::Synchronize() {
  return npugraph::ge::api_call("Stream::Synchronize", [&] {
    queue_->wait();
    for (std::string& warning : queue_->take_warnings()) npugraph::ge::add_warning(std::move(warning));
    if (const auto failure = queue_->take_failure()) throw npugraph::ge::ApiError(failure->first, failure->second);
  });
}

}  // namespace ge
