# SPDX-License-Identifier: Apache-2.0
"""GE mode as a backend of torch.compile."""
