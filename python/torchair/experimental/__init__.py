# SPDX-License-Identifier: Apache-2.0
"""Names that are not here; reading ``inference`` says why."""

from npugraph.facade import lazy_names
from torchair import _ABSENT

__getattr__ = lazy_names(__name__, {}, {"inference": _ABSENT["inference"]})
