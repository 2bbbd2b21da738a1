# SPDX-License-Identifier: Apache-2.0
"""Attention over shards of a sequence: torch's."""

from torch.distributed.tensor.experimental import context_parallel

__all__ = ["context_parallel"]
