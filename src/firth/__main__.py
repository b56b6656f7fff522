"""``python -m firth`` is the command ``firth``."""

import sys


def run() -> None:
    """Ctrl-C may come before the command line is there to take it."""
    try:
        from firth.cli.main import main

        main()
    except KeyboardInterrupt:
        sys.stderr.write("firth: stopped; run the same command again\n")
        sys.exit(130)


if __name__ == "__main__":
    run()
