# SPDX-License-Identifier: Apache-2.0
"""What torchair had under this name before. Nothing of it is here; a name that is read says why."""

from npugraph.facade import lazy_names
from torchair import _ABSENT

__getattr__ = lazy_names(__name__, {}, {"inference": _ABSENT["inference"]})
