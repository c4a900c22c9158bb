"""Entry: exports a version as one file with a model card, and imports it as a new run's version 0.

`python -m Daddy.weights.model export FILE`, `import FILE`, `show FILE`.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.arguments import ArgumentParser
from Daddy.core.clock import SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode, UsageError
from Daddy.weights.locate_shared_weights import (
    add_config_flags,
    add_location,
    locate,
    version_number,
)


def make_parser() -> argparse.ArgumentParser:
    """Return the argument parser."""
    parser = ArgumentParser(
        prog="model", description="Weights as safetensors files with a model card."
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    export = verbs.add_parser("export", help="write a version to FILE.safetensors and FILE.md")
    export.add_argument("file", type=Path, metavar="FILE.safetensors", help="file to write")
    add_location(export)
    export.add_argument(
        "--version", type=version_number, metavar="N", help="version (default: the newest)"
    )
    bring = verbs.add_parser("import", help="start a new run with the weights of a file")
    bring.add_argument("file", type=Path, metavar="FILE.safetensors", help="exported file")
    add_config_flags(bring)
    bring.add_argument("--assists", metavar="NAMES", help="new run's assists (default: config's)")
    show = verbs.add_parser("show", help="print the card of an exported file")
    show.add_argument("file", type=Path, metavar="FILE.safetensors", help="exported file")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Codes: 0 done, 2 usage, 3 config, 6 weights unusable, 9 files."""
    args = make_parser().parse_args(argv)
    args.file = args.file.expanduser().absolute()
    warnings.filterwarnings("ignore", "The pynvml package", FutureWarning)  # torch's, not ours
    {"export": _export, "import": _import, "show": _show}[args.verb](args)
    return int(ExitCode.DONE)


def _export(args: argparse.Namespace) -> None:
    if args.file.suffix != ".safetensors":
        raise UsageError(f"{args.file.name} does not end in .safetensors", "add .safetensors")
    from Daddy.weights.import_export import read_version_as_model, write_model

    model = read_version_as_model(locate(args), args.version)
    path, page = write_model(model, args.file)
    helped = f", learnt with the assists {', '.join(model.card.assists)}"
    print(f"wrote {path}: {model.card.title}{helped * bool(model.card.assists)}")
    print(f"wrote {page}: the model card")


def _import(args: argparse.Namespace) -> None:
    from Daddy.core.load_config import load_config
    from Daddy.weights.import_export import import_model, read_model

    settings = {"run_dir": args.run_dir, "training.assists": args.assists}
    config = load_config(args.config, settings, os.environ, args.site)
    model = read_model(args.file)
    shared = import_model(model, str(args.file), config, SystemClock())
    print(f"{shared.root} begins with {model.card.title}, {model.card.workload}")
    if config.training.assists:
        print(f"its learners need the same assists: {', '.join(config.training.assists)}")


def _show(args: argparse.Namespace) -> None:
    from Daddy.weights.import_export import read_model, to_markdown

    print(to_markdown(read_model(args.file).card, args.file.name), end="")


if __name__ == "__main__":
    sys.exit(run_entry(main, private="import" in sys.argv[1:2]))
