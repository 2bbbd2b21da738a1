# SPDX-License-Identifier: Apache-2.0
"""torch's attention over shards of a sequence."""

from torch.distributed.tensor.experimental import context_parallel

__all__ = ["context_parallel"]
