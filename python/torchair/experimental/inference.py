# SPDX-License-Identifier: Apache-2.0
"""Not here: an import raises ``ImportError`` with the reason."""

from npugraph.facade import refuse_import

refuse_import(__name__)
