"""`python -m workbench.simulator`: the simulator without the rest of Workbench."""

from __future__ import annotations

import argparse
import sys

from workbench.domain.variables import BadInput
from workbench.simulator.options import add_arguments, from_arguments
from workbench.simulator.server import run


def main() -> int:
    """Read the options and serve; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m workbench.simulator",
        description="A simulated OpenAI-compatible server of known timing. Prints its base URL first.",
    )
    add_arguments(parser)
    try:
        options = from_arguments(parser.parse_args())
    except BadInput as problem:
        parser.error(str(problem))
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
