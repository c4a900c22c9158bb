"""Entry: ``python3 cluster/testbed COMMAND``; makes the package importable from any folder."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

if __name__ == "__main__":
    from cluster.testbed.cli import main

    sys.exit(main(sys.argv[1:]))
