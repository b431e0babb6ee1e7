"""``python -m tileops``."""

import sys

from tileops.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
