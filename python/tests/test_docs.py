"""The examples of the guide run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "embed" / "python.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if PAGE.exists() else []


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples_run(number: int, tmp_path: Path) -> None:
    example = tmp_path / "test_example.py"
    example.write_text(EXAMPLES[number])
    is_test = "def test_" in EXAMPLES[number]
    run = [sys.executable, "-m", "pytest", "-q", str(example)] if is_test else [
        sys.executable,
        str(example),
    ]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    if is_test:
        assert "2 passed" in done.stdout


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 3


def refusal(before: str) -> str:
    """What an import says after some lines."""
    program = f"{before}\ntry:\n    import stillframe\nexcept ImportError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_interpreters_that_are_not_tested_are_refused_by_name() -> None:
    assert "free-threaded" in refusal(
        "import sysconfig\n"
        "get = sysconfig.get_config_var\n"
        "sysconfig.get_config_var = lambda it: 1 if it == 'Py_GIL_DISABLED' else get(it)"
    )
    assert "this is darwin" in refusal("import sys\nsys.platform = 'darwin'")
    interpreters = pytest.importorskip("_xxsubinterpreters")
    program = (
        "try:\n    import stillframe\nexcept ImportError as error:\n"
        "    assert 'sub-interpreters' in str(error), error\n"
        "else:\n    raise SystemExit('imported')"
    )
    import stillframe  # noqa: F401  (the main interpreter has it)

    interpreter = interpreters.create()
    try:
        interpreters.run_string(interpreter, program)
    finally:
        interpreters.destroy(interpreter)
