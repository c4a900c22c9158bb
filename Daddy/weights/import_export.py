"""Exports a version as a file with a model card, and imports such a file as a run's version 0.

Files are bounded, hashed and parsed, never unpickled. An import writes only version 0: a run that
has started refuses it, and an interrupted import can be repeated. The card stands as JSON in the
file's header, where it cannot be lost, and as Markdown beside the file for people; the one in the
header counts. It states no licence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from Daddy.core.agreed_settings import agreed_settings, contract_to_pairs, network_sizes
from Daddy.core.assist_compatibility import refuse_missing_assists
from Daddy.core.atomic_files import create_exclusive, read_bounded, sha256_hex
from Daddy.core.clock import Clock
from Daddy.core.errors import FileError, WeightsError
from Daddy.core.humanize import printable_line
from Daddy.core.load_config import run_paths, shared_paths
from Daddy.core.name_validation import new_token
from Daddy.core.settings import PROFILES, Config
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.encoding.state_arithmetic import StateDict, is_finite
from Daddy.weights.encoding.state_codec import decode, encode
from Daddy.weights.encoding.tensor_layout import metadata_of, schema_of_bytes
from Daddy.weights.laptop.pulled_folder import newest_verified
from Daddy.weights.locate_shared_weights import Location, no_weights_error
from Daddy.weights.store.laptop_downloads import offer_version
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.version_retention import kept_numbers
from Daddy.weights.store.weight_records import JsonRecord, LaptopHead, RunCard, Version, parse
from Daddy.weights.store.weight_store import BLOB_LIMIT, Store, version_numbers

KEY = "daddy_card"
"""Name of the card in the header."""


@dataclass(frozen=True, slots=True)
class ModelCard(JsonRecord):
    """Facts on version ``version`` of a run that was exported as a file.

    ``sha256`` is the hash of its tensors as our codec writes them without a card, in ``precision``
    ("float32"; from a laptop "bfloat16"). ``env_steps`` were made in the run, ``steps_before`` in
    the runs it descends from, ``ancestors``, oldest first. ``contributors`` (peer → steps) is empty
    if the exporting machine did not know them. Releases before could also export a mean, of the
    ``averaged`` versions up to this one.
    """

    run: str
    run_id: str
    version: int
    workload: str
    schema: str
    sha256: str
    precision: str
    parameters: int
    env_steps: int
    steps_before: int
    merged_ts: float
    contributors: dict[str, int]
    ancestors: tuple[str, ...] = ()
    assists: tuple[str, ...] = ()
    averaged: int = 1

    @property
    def title(self) -> str:
        """Title for people: ``v57 of demo (1b2803a2664e)``."""
        mean = f"mean of {self.averaged} versions to " if self.averaged > 1 else ""
        return printable_line(f"{mean}v{self.version} of {self.run} ({self.run_id})", 120)


@dataclass(frozen=True)
class ExportedModel:
    """A card and the weights that it describes."""

    card: ModelCard
    state: StateDict

    def to_safetensors(self) -> bytes:
        """Return the file's bytes: the tensors, with the card in the header."""
        half = self.card.precision == "bfloat16"
        return encode(self.state, half=half, metadata={KEY: self.card.to_json_bytes().decode()})


# -- export


def read_version_as_model(place: Location, version: int | None) -> ExportedModel:
    """Read version ``version`` (None: the newest) of a run or pulled folder; or WeightsError."""
    if place.pulled:
        return _from_laptop(place.shared.root, version)
    store = Store(place.shared)
    newest = store.newest()
    if newest is None:
        raise no_weights_error(place.shared.root)
    number = newest if version is None else version
    if not 0 <= number <= newest:
        raise WeightsError(f"there is no v{version}: the newest is v{newest}", "name an older one")
    record, origin = store.version(number), read_origin(store.paths)
    try:
        state = decode(store.read_blob(record.state), record.schema)
    except WeightsError as error:
        held = ", ".join(f"v{held}" for held in sorted(kept_numbers(store, newest)))
        raise WeightsError(
            f"the state of v{number} cannot be read: {error.message}",
            f"versions whose state exists: {held or 'none'}",
        ) from error
    card = _card(store.card(), record, state, half=False)
    if origin is not None:
        before = origin.env_steps + origin.steps_before
        ancestors = (*origin.ancestors, origin.title)
        card = replace(card, steps_before=before, ancestors=ancestors)
    return ExportedModel(replace(card, contributors=record.contributors), state)


def _from_laptop(root: Path, version: int | None) -> ExportedModel:
    pulled = newest_verified(root)
    if pulled is None:
        raise no_weights_error(root)
    if version not in (None, pulled.version):
        raise WeightsError(
            f"{root} does not hold v{version}", f"take v{pulled.version}, or name the run"
        )
    state = decode(pulled.data, pulled.head.schema)
    return ExportedModel(_card(pulled.head, pulled.head, state, half=True), state)


def _card(
    run: RunCard | LaptopHead, record: Version | LaptopHead, state: StateDict, *, half: bool
) -> ModelCard:
    return ModelCard(
        run=run.run,
        run_id=record.run_id,
        workload=run.workload,
        schema=record.schema,
        sha256=sha256_hex(encode(state, half=half)),
        precision="bfloat16" if half else "float32",
        parameters=sum(tensor.numel() for tensor in state.values()),
        assists=record.assists,
        version=record.version,
        merged_ts=record.ts,
        env_steps=record.fleet_steps,
        steps_before=0,
        contributors={},
    )


def write_model(model: ExportedModel, path: Path) -> tuple[Path, Path]:
    """Write ``model`` to ``path``, its card to a ``.md`` file; FileError if one exists."""
    page = path.with_suffix(".md")
    for taken in (path, page):
        if taken.exists():
            raise FileError(f"{taken} exists already", "name another file, or remove it")
    create_exclusive(path, model.to_safetensors())
    create_exclusive(page, to_markdown(model.card, path.name).encode())
    return path, page


def to_markdown(card: ModelCard, file: str) -> str:
    """Return the card as Markdown; ``file`` is the file's name."""
    before = f", after {card.steps_before:,} in earlier runs" if card.steps_before else ""
    helped = f"learnt with {', '.join(card.assists)}: parts of the game were scripted"
    rows = {
        "workload": f"`{printable_line(card.workload)}`",
        "run": printable_line(f"{card.run} (`{card.run_id}`), version {card.version}"),
        "environment steps": f"{card.env_steps:,}{before}",
        "assists": helped if card.assists else "none: nothing was scripted",
        "descends from": ", then ".join(map(printable_line, card.ancestors)) or "no other run",
        "parameters": f"{card.parameters:,}, {printable_line(card.precision)}",
        "schema": f"`{card.schema}`",
        "SHA-256 of the tensors": f"`{card.sha256}`",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    total = max(1, sum(card.contributors.values()))
    peers = "\n".join(
        f"| {printable_line(peer)} | {steps:,} | {100 * steps / total:.1f} % |"
        for peer, steps in sorted(card.contributors.items(), key=lambda pair: (-pair[1], pair[0]))
    )
    unknown = "Not known where it was exported." if card.env_steps else "Nobody yet."
    return f"""# {printable_line(card.run)}, version {card.version}

Weights of one policy that the peers below learnt together, as safetensors.
This page says what the header of `{file}` says (`python -m Daddy.weights.model show {file}`).

| | |
| --- | --- |
{table}

## Contributors

{f"| peer | steps | share |{chr(10)}| --- | --- | --- |{chr(10)}{peers}" if peers else unknown}

## Use

```bash
python -m Daddy.weights.model import {file} --run-dir runs/another_run
```

Any safetensors reader opens it: names and shapes of the tensors are the policy's own. Not in it:
the optimizer's state, data of a game, and a licence, which is for whoever passes it on to state.
"""


# -- import


def read_card(metadata: Mapping[str, str], name: str) -> ModelCard | None:
    """Parse the card in file ``name``; None if it has none. Raise WeightsError if damaged."""
    if KEY not in metadata:
        return None
    return parse(ModelCard, metadata[KEY].encode(errors="replace"), f"the card in {name}")


def read_origin(shared: SharedPaths) -> ModelCard | None:
    """Return ``ORIGIN.json``, the card of an imported version 0; None if none was imported."""
    try:
        return parse(ModelCard, read_bounded(shared.origin, LIMIT), str(shared.origin))
    except FileNotFoundError:
        return None


def read_model(path: Path) -> ExportedModel:
    """Read the weights in an exported file, checked against its card. Raise WeightsError when the
    file is no safetensors, has no card, other tensors or values than the card's, or values that are
    not finite; FileError when it is no plain file.
    """
    data = read_bounded(path, BLOB_LIMIT)
    card = read_card(metadata_of(data), str(path))
    if card is None:
        raise WeightsError(
            f"{path} has no model card, so the assists that its weights need are unknown",
            "import files that `python -m Daddy.weights.model export` wrote",
        )
    state = decode(data, card.schema)
    if sha256_hex(encode(state, half=card.precision == "bfloat16")) != card.sha256:
        raise WeightsError(
            f"{path} does not hold the values that its card names", "fetch or export it again"
        )
    if not is_finite(state):
        raise WeightsError(f"{path} holds values that are not finite", "take another version")
    return ExportedModel(card, state)


def import_model(model: ExportedModel, name: str, config: Config, clock: Clock) -> SharedPaths:
    """Write ``model`` as version 0 of the run of ``config``; return its shared folder. ``name`` is
    the file's, for messages. Raise WeightsError when the run has started, is of another workload,
    or uses fewer assists than the weights were learnt with.
    """
    shared, assists = shared_paths(config), tuple(config.training.assists)
    refuse_missing_assists(f"{name}, {model.card.title},", model.card.assists, assists)
    if model.card.workload != config.training.workload:
        raise WeightsError(
            f"{name} holds weights of {model.card.workload!r}, the run is configured for "
            f"{config.training.workload!r}",
            f"set training.workload to {model.card.workload}, or take another file",
        )
    _refuse_other_network(model, name, config)
    data = encode(model.state)
    _refuse_started_run(config, shared, sha256_hex(data))
    store, schema = Store(shared), schema_of_bytes(data)
    rules = contract_to_pairs(_decided_settings(config))
    card = RunCard(config.run_name, new_token(), model.card.workload, schema, assists, rules)
    run_id = store.open(card).run_id
    first = Version(
        run_id=run_id,
        schema=schema,
        rule=config.collaboration.rule,
        assists=assists,
        state=store.put_blob(data, "state"),
        size=len(data),
        merger=f"import of {model.card.title}",
        ts=round(clock.now(), 3),
    )
    if not store.commit(first) and store.version(0).state != first.state:
        raise _run_started_error(shared, "a learner wrote its own version 0 first")
    store.writer.create(shared.origin, model.card.to_json_bytes(), "origin", mode=0o444)
    store.write_head(0)
    offer_version(store, 0, encode(model.state, half=True))
    return shared


def _decided_settings(config: Config) -> dict[str, str]:
    """Return the agreed settings without those that nobody set and that `start` may tune."""
    untouched = {
        f"training.{name}" for name in PROFILES["gpu"].keys() - config.training.model_fields_set
    }
    return {name: value for name, value in agreed_settings(config).items() if name not in untouched}


def _refuse_other_network(model: ExportedModel, name: str, config: Config) -> None:
    """Raise WeightsError if the game's network in the file has other sizes than the run's."""
    theirs, training = network_sizes(model.state), config.training
    ours = {size: getattr(training, size) for size in theirs}
    if training.workload == "pokemon_red" and theirs != ours:
        sizes = ", ".join(f"training.{size} {value}" for size, value in theirs.items())
        raise WeightsError(
            f"{name} holds a network with {sizes}; the run is configured for "
            f"{' and '.join(map(str, ours.values()))}",
            f"set {sizes}, or take another file",
        )


def _refuse_started_run(config: Config, shared: SharedPaths, state: str) -> None:
    """Raise WeightsError if the run has learnt; only a version 0 with hash ``state`` may exist."""
    versions = version_numbers(shared)
    if versions and (len(versions) > 1 or Store(shared).version(versions[0]).state != state):
        raise _run_started_error(shared, f"it has versions up to v{versions[-1]}")
    for checkpoint in run_paths(config).slots.glob("*/checkpoints/*.json"):
        raise _run_started_error(shared, f"there is a learner's checkpoint, {checkpoint}")


def _run_started_error(shared: SharedPaths, reason: str) -> WeightsError:
    return WeightsError(
        f"the run of {shared.root} has begun: {reason}", "import into a new run: another --run-dir"
    )
