# SPDX-License-Identifier: Apache-2.0
"""Categories of the warnings of npugraph."""


class NpugraphWarning(UserWarning):
    """Something works, but not as fast as it could, or not captured, or an option has no effect."""


class DefectWarning(NpugraphWarning):
    """A graph could not be compiled because of a defect of npugraph. It runs operator by operator."""
