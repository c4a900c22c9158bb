"""A version as one file with its card, and such a file as version 0 of a new run."""

import dataclasses
import json
import pickle
import shutil

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from Daddy.core.atomic_files import sha256_hex
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode, WeightsError
from Daddy.core.load_config import load_config
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights import log, model
from Daddy.weights.encoding.state_codec import decode, encode
from Daddy.weights.encoding.tensor_layout import metadata_of
from Daddy.weights.import_export import (
    KEY,
    ExportedModel,
    ModelCard,
    import_model,
    read_model,
    read_version_as_model,
    to_markdown,
)
from Daddy.weights.locate_shared_weights import locate_at
from Daddy.weights.store.weight_records import parse
from Daddy.weights.store.weight_store import Store
from tests.weights.helpers import ManualClock, begin, close, make_state
from tests.weights.lineage_run import LineageRun

HELPED = ("money", "flash")


@pytest.fixture(autouse=True)
def cartpole(monkeypatch):
    """Return the config of the runs of these tests."""
    monkeypatch.setenv("DADDY_TRAINING__WORKLOAD", "cartpole")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run with a laptop's contributions, which a laptop has pulled."""
    run = LineageRun(tmp_path_factory.mktemp("trained"), jobs=2)
    run.play(2)
    run.contribute("anna-mac", scale=0.02)
    run.play(10)
    return run


@pytest.fixture
def file(trained, tmp_path):
    path = tmp_path / "best.safetensors"
    assert run_entry(model.main, ["export", str(path), str(trained.run.root)]) == 0
    return path


def newest_state(shared):
    store = Store(SharedPaths(shared))
    record = store.version(store.newest())
    return record, decode(store.read_blob(record.state))


def card_of(path) -> ModelCard:
    return parse(ModelCard, metadata_of(path.read_bytes())[KEY].encode(), "it")


def bring(path, run_dir, *more) -> int:
    return run_entry(model.main, ["import", str(path), "--run-dir", str(run_dir), *more])


def test_any_reader_of_safetensors_finds_the_newest_weights_in_it(trained, file):
    record, state = newest_state(trained.shared)
    assert close(load_file(file), state, 0.0)
    with safe_open(file, "pt") as opened:
        assert set(opened.keys()) == set(state)
        assert json.loads(opened.metadata()[KEY])["version"] == record.version


def test_its_card_says_what_it_is_and_who_made_it(trained, file):
    record, state = newest_state(trained.shared)
    card, run_card = card_of(file), Store(SharedPaths(trained.shared)).card()
    assert (card.run, card.run_id, card.workload) == ("test", run_card.run_id, "cartpole")
    assert (card.version, card.schema) == (record.version, run_card.schema)
    assert card.env_steps == record.fleet_steps
    assert card.contributors == record.contributors
    assert card.contributors["anna-mac"] == 200
    assert card.assists == ()
    assert card.parameters == sum(tensor.numel() for tensor in state.values())
    assert card.sha256 == record.state  # the very bytes of the run's own blob


def test_the_page_beside_it_says_the_same_to_people_and_can_be_printed_again(file, capsys):
    page = file.with_suffix(".md").read_text()
    capsys.readouterr()
    assert run_entry(model.main, ["show", str(file)]) == 0
    assert capsys.readouterr().out == page
    card = card_of(file)
    for said in (f"version {card.version}", f"{card.env_steps:,}", "anna-mac", card.schema,
                 "none: nothing was scripted", "a licence, which is for whoever"):  # fmt: skip
        assert said in page


def test_the_same_version_is_the_same_bytes_wherever_it_is_exported(trained, file, tmp_path):
    again = tmp_path / "again.safetensors"
    shutil.copytree(trained.run.root, tmp_path / "copy")
    assert run_entry(model.main, ["export", str(again), str(tmp_path / "copy")]) == 0
    assert again.read_bytes() == file.read_bytes()


def test_nothing_that_is_there_is_written_over(trained, file, capsys):
    before = file.read_bytes()
    typed = ["export", str(file), str(trained.run.root)]
    assert run_entry(model.main, typed) == ExitCode.FILES
    assert "exists already" in capsys.readouterr().err
    assert file.read_bytes() == before
    file.unlink()
    file.with_suffix(".md").write_text("my own notes")
    assert run_entry(model.main, typed) == ExitCode.FILES
    assert file.with_suffix(".md").read_text() == "my own notes"
    assert not file.exists()


def test_an_older_version_can_be_had_while_its_state_is_kept(trained, tmp_path, capsys):
    newest, _ = newest_state(trained.shared)
    older = newest.version - 2
    path = tmp_path / "older.safetensors"
    typed = [str(path), str(trained.run.root), "--version"]
    assert run_entry(model.main, ["export", *typed, str(older)]) == 0
    assert card_of(path).version == older
    store = Store(SharedPaths(trained.shared))
    there = (store.paths.blob(store.version(n).state).exists() for n in range(newest.version))
    first_gone = list(there).index(False)
    for gone, said in ((first_gone, "versions whose state exists: v"),
                       (newest.version + 1, f"there is no v{newest.version + 1}")):  # fmt: skip
        path.unlink(missing_ok=True)
        path.with_suffix(".md").unlink(missing_ok=True)
        assert run_entry(model.main, ["export", *typed, str(gone)]) == ExitCode.WEIGHTS
        assert said in capsys.readouterr().err
        assert not path.exists()


def test_a_laptop_exports_what_it_pulled_and_says_that_it_is_rounded(trained, tmp_path):
    path = tmp_path / "from-laptop.safetensors"
    local = trained.root / "anna-mac"
    assert run_entry(model.main, ["export", str(path), str(local)]) == 0
    card = card_of(path)
    record, state = newest_state(trained.shared)
    assert (card.version, card.precision) == (record.version, "bfloat16")
    assert "Not known where it was exported" in path.with_suffix(".md").read_text()
    assert close(read_model(path).state, state, 0.05)
    typed = ["export", str(tmp_path / "x.safetensors"), str(local), "--version", "1"]
    assert run_entry(model.main, typed) == ExitCode.WEIGHTS


# -- a new run


def test_learners_of_the_new_run_begin_with_the_imported_weights(file, trained, tmp_path, capsys):
    _, state = newest_state(trained.shared)
    assert bring(file, tmp_path / "new") == 0
    shared = tmp_path / "new" / "shared_weights"
    assert f"{shared} begins with v" in capsys.readouterr().out
    learner = begin(shared, "slot-0", ManualClock(), own=make_state(9))
    assert learner.version == 0
    assert close(learner.weights, state, 0.0)
    learner.learn(1)
    learner.publish()
    assert learner.adopt() == 1
    assert run_entry(log.main, [str(tmp_path / "new")]) == 0
    assert "import of v" in capsys.readouterr().out.splitlines()[1]


def test_what_descends_from_it_says_so(file, tmp_path):
    bring(file, tmp_path / "new")
    learner = begin(tmp_path / "new" / "shared_weights", "slot-0", ManualClock())
    learner.learn(1)
    learner.publish()
    first, second = card_of(file), read_version_as_model(locate_at(tmp_path / "new"), None).card
    assert second.ancestors == (first.title,)
    assert (second.env_steps, second.steps_before) == (100, first.env_steps)
    assert f"100, after {first.env_steps:,} in earlier runs" in to_markdown(second, "x")


def test_an_import_that_was_cut_off_is_ended_by_repeating_it(file, tmp_path):
    bring(file, tmp_path / "new")
    shared = tmp_path / "new" / "shared_weights"
    whole = sorted(str(path) for path in shared.rglob("*.*") if "tmp" not in path.parts)
    for path in (shared / "ORIGIN.json", shared / "HEAD.json", shared / "wan" / "HEAD.json"):
        path.unlink()
    assert bring(file, tmp_path / "new") == 0
    assert sorted(str(path) for path in shared.rglob("*.*") if "tmp" not in path.parts) == whole


def test_a_run_that_has_begun_keeps_its_own_weights(file, tmp_path, capsys):
    begun = tmp_path / "begun" / "shared_weights"
    begin(begun, "slot-0", ManualClock(), own=make_state(3))
    before = SharedPaths(begun).version(0).read_bytes()
    assert bring(file, tmp_path / "begun") == ExitCode.WEIGHTS
    assert "has begun: it has versions up to v0" in capsys.readouterr().err
    assert SharedPaths(begun).version(0).read_bytes() == before
    (tmp_path / "other" / "slots" / "0" / "checkpoints").mkdir(parents=True)
    (tmp_path / "other" / "slots" / "0" / "checkpoints" / "t1-s2.json").write_text("{}")
    assert bring(file, tmp_path / "other") == ExitCode.WEIGHTS
    assert "a learner's checkpoint" in capsys.readouterr().err
    assert not (tmp_path / "other" / "shared_weights").exists()


def test_another_policy_cannot_go_on_with_it(file, tmp_path):
    bring(file, tmp_path / "new")
    with pytest.raises(WeightsError, match="holds the weights of 'cartpole'"):
        begin(tmp_path / "new" / "shared_weights", "slot-0", ManualClock(), workload="pokemon_red")


# -- assists


GAME = {"workload": "pokemon_red"}


@pytest.fixture
def helped(tmp_path, monkeypatch):
    """A file of weights that were learnt with scripted helps, and a run of the game."""
    monkeypatch.setenv("DADDY_TRAINING__WORKLOAD", "pokemon_red")
    shared = tmp_path / "helped" / "shared_weights"
    peer = begin(shared, "slot-0", ManualClock(), assists=HELPED, **GAME)
    peer.learn(1)
    peer.publish()
    path = tmp_path / "helped.safetensors"
    assert run_entry(model.main, ["export", str(path), str(tmp_path / "helped")]) == 0
    return path


def test_the_assists_are_in_the_card_and_on_the_page(helped):
    assert card_of(helped).assists == HELPED
    assert "learnt with money, flash: parts" in helped.with_suffix(".md").read_text()


@pytest.mark.parametrize("ours", [(), ("--assists", "none"), ("--assists", "money")])
def test_a_run_without_these_assists_never_takes_them(helped, tmp_path, capsys, ours):
    assert bring(helped, tmp_path / "new", *ours) == ExitCode.WEIGHTS
    error = capsys.readouterr().err
    assert "was learnt with the assists flash" in error
    assert "--assists money,flash" in error
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("ours", ["money,flash", "money,flash,flute"])
def test_a_run_with_these_or_more_takes_them_and_is_marked_with_all_of_its_own(
    helped, tmp_path, ours
):
    assert bring(helped, tmp_path / "new", "--assists", ours) == 0
    shared, names = tmp_path / "new" / "shared_weights", set(ours.split(","))
    store = Store(SharedPaths(shared))
    assert set(store.card().assists) == set(store.version(0).assists) == names
    with pytest.raises(WeightsError, match="this learner has none"):
        begin(shared, "slot-0", ManualClock(), **GAME)
    assert begin(shared, "slot-0", ManualClock(), assists=tuple(names), **GAME).version == 0


# -- files that are not what they say


def spoilt(path, kind: str) -> None:
    """Damage the file as a disk or an attacker would."""
    found, data = read_model(path), path.read_bytes()
    state = {name: tensor.clone() for name, tensor in found.state.items()}
    if kind == "pickle":
        path.write_bytes(pickle.dumps(state))
    elif kind == "torn":
        path.write_bytes(data[:-9])
    elif kind == "no card":
        path.write_bytes(encode(state))
    elif kind == "card is no card":
        path.write_bytes(encode(state, metadata={KEY: '{"format": 1, "run": 7}'}))
    elif kind == "one bit":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif kind == "other tensors":
        path.write_bytes(
            ExportedModel(found.card, {**state, "more": torch.zeros(2)}).to_safetensors()
        )
    elif kind == "NaN":
        state["core.bias"][0] = float("nan")
        card = dataclasses.replace(found.card, sha256=sha256_hex(encode(state)))
        path.write_bytes(ExportedModel(card, state).to_safetensors())


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("pickle", "no complete safetensors"),
        ("torn", "no complete safetensors"),
        ("no card", "has no model card"),
        ("card is no card", "is no valid ModelCard record"),
        ("one bit", "does not hold the values that its card names"),
        ("other tensors", "other tensor names or shapes"),
        ("NaN", "values that are not finite"),
    ],
)
def test_a_file_that_is_not_what_it_says_begins_no_run(file, tmp_path, capsys, kind, said):
    spoilt(file, kind)
    assert bring(file, tmp_path / "new") == ExitCode.WEIGHTS
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", ["missing", "link", "folder"])
def test_what_is_no_plain_file_is_not_opened(file, tmp_path, capsys, kind):
    path = tmp_path / "odd.safetensors"
    if kind == "link":
        path.symlink_to(file)
    elif kind == "folder":
        path.mkdir()
    assert bring(path, tmp_path / "new") == ExitCode.FILES
    assert str(path) in capsys.readouterr().err


def test_a_learner_that_is_faster_keeps_the_run_its_own(file, tmp_path):
    """Between our check and our commit a learner writes the run's version 0."""
    config = load_config(
        overrides={"run_dir": str(tmp_path / "new"), "training.workload": "cartpole"}
    )
    shared = tmp_path / "new" / "shared_weights"

    class Late(ManualClock):
        def now(self) -> float:
            begin(shared, "slot-0", ManualClock(), own=make_state(3))
            return super().now()

    with pytest.raises(WeightsError, match="a learner wrote its own version 0"):
        import_model(read_model(file), "it", config, Late())
    assert close(newest_state(shared)[1], make_state(3), 0.0)
    assert not (shared / "ORIGIN.json").exists()


def test_weights_of_another_workload_are_refused_before_anything_is_made(
    file, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("DADDY_TRAINING__WORKLOAD", "pokemon_red")
    typed = ["import", str(file), "--run-dir", str(tmp_path / "new")]
    assert run_entry(model.main, typed) == ExitCode.WEIGHTS
    assert "set training.workload to cartpole" in capsys.readouterr().err
    assert not (tmp_path / "new" / "shared_weights").exists()


def test_a_network_of_other_sizes_than_the_runs_is_not_brought(file, tmp_path):
    known = read_model(file)
    card = dataclasses.replace(known.card, workload="pokemon_red")
    state = {"lstm.weight_ih_l0": torch.zeros(64, 48), "actor.weight": torch.zeros(7, 16)}
    sized = {"training.workload": "pokemon_red", "training.encoder_size": 48}
    small = load_config(None, {**sized, "run_dir": str(tmp_path / "run")})
    with pytest.raises(WeightsError, match=r"encoder_size 48, training\.lstm_size 16.* 48 and 128"):
        import_model(ExportedModel(card, state), "it", small, ManualClock())
    assert not (tmp_path / "run" / "shared_weights" / "RUN.json").exists()


def test_an_imported_run_leaves_open_what_start_may_tune(file, tmp_path):
    known = read_model(file)
    for name, typed in (("open", {}), ("set", {"training.gamma": 0.9})):
        config = load_config(None, {"training.workload": "cartpole", **typed,
                                    "run_dir": str(tmp_path / name)})  # fmt: skip
        terms = dict(Store(import_model(known, "it", config, ManualClock())).card().terms)
        assert terms.get("training.gamma") == ("0.9" if typed else None)
        assert "collaboration.rule" in terms
