# SPDX-License-Identifier: Apache-2.0
from npugraph.facade import lazy_names, submodules

__getattr__ = lazy_names(__name__, submodules(__name__, "inference"))
