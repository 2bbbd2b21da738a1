# SPDX-License-Identifier: Apache-2.0
"""Models from GGUF files whose weights keep the file's own blocks (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K).

``load(path)`` returns a model of transformers. Compiled with ``backend="npugraph_ex"``, its products read the blocks as
they are. It needs the packages transformers, accelerate and gguf.
"""

from npugraph.gguf.loading import load
from npugraph.gguf.modules import QuantisedEmbedding, QuantisedLinear

__all__ = ["QuantisedEmbedding", "QuantisedLinear", "load"]
