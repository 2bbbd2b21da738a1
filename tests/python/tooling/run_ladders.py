# SPDX-License-Identifier: Apache-2.0
"""Runs ladders one after the other in one process, which imports torch once: run_ladders.py '[[folder, arguments]]'.

The output of each ladder goes to ``output`` and ``errors`` in its folder, and its exit code to ``code``.
"""

import contextlib
import json
import os
import sys

from npugraph.__main__ import main

if __name__ == "__main__":
    for folder, arguments in json.loads(sys.argv[1]):
        os.chdir(folder)
        with open("output", "w") as output, open("errors", "w") as errors, open("code", "w") as code:
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
                returned = main(["ladder", *arguments])
            code.write(str(returned))
