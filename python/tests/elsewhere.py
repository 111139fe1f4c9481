"""Another process that opens what this one has open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def refused_elsewhere(opens: str, directory: Path) -> str:
    """What `stillframe.InUse` says there, where `stillframe.<opens>` takes the directory."""
    program = (
        f"import sys, stillframe\ntry:\n    stillframe.{opens}(sys.argv[1])\n"
        "except stillframe.InUse as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(directory)], capture_output=True, text=True, check=True
    )
    return done.stdout
