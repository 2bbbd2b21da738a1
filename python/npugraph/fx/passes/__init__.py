# SPDX-License-Identifier: Apache-2.0
"""The passes over FX graphs. Users can see them, switch them off and extend them."""
