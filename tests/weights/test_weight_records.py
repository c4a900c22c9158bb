import dataclasses
import json

import pytest

from Daddy.core.errors import WeightsError
from Daddy.weights.store.weight_records import Contribution, Input, Refusal, Version, parse
from tests.weights.test_admission import OFFER

INPUT = Input("slot-0", "01234567", 1, "ab" * 32, 0, 0, 0.25, 1.0, 2.5, 100, 100, 10)
REFUSAL = Refusal("anna", "01234567", 2, "values", "it holds values that are not finite")
VERSION = Version(
    version=1,
    run_id="run",
    schema="ab" * 32,
    parent="cd" * 32,
    base=0,
    state="ef" * 32,
    size=10,
    rule="delta",
    denominator=4.0,
    inputs=(INPUT,),
    refused=(REFUSAL,),
    consumed={"slot-0/01234567": (1, 1)},
    contributors={"slot-0": 100},
    norms=((2.5, 10.0),),
    fleet_steps=100,
    merger="slot-0/01234567",
    ts=1.5,
)


def test_records_come_back_equal_and_with_equal_bytes():
    for record in (OFFER, VERSION):
        again = parse(type(record), record.to_json_bytes(), "it")
        assert again == record
        assert again.to_json_bytes() == record.to_json_bytes()


def changed(**changes: object) -> bytes:
    return json.dumps({**json.loads(OFFER.to_json_bytes()), **changes}).encode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no valid Contribution"),
        (b"[]", "not an object"),
        (b"\xff\xfe", "no valid Contribution"),
        (b"[" * 50_000, "no valid Contribution"),
        (b'{"format": 1, "format": 1}', "occurs twice"),
        (changed(format=2), "format 2 is not 1"),
        (changed(peer="../evil"), "peer"),
        (changed(peer="a\nb"), "peer"),
        (changed(blob="../../etc/passwd"), "blob"),
        (changed(blob=("ab" * 32) + "\n"), "blob"),
        (changed(sequence=-1), "sequence"),
        (changed(sequence=True), "sequence"),
        (changed(sequence=1.5), "sequence"),
        (changed(sequence=2**60), "sequence"),
        (changed(run_id=5), "run_id"),
        (OFFER.to_json_bytes().replace(b'"size": 1000', b'"size": NaN'), "NaN"),
        (OFFER.to_json_bytes().replace(b"size", b"sise"), "'size' is missing"),
        (OFFER.to_json_bytes() + b" " * 70_000, "more than"),
    ],
)
def test_anything_else_is_refused_and_says_what_is_wrong(data, said):
    with pytest.raises(WeightsError, match=said):
        parse(Contribution, data, "peers/x/1.json")


@pytest.mark.parametrize("field", ["inputs", "refused", "norms", "consumed", "contributors"])
@pytest.mark.parametrize("value", [5, "x", [5], {"a": "b"}, [[1]], None])
def test_collections_of_the_wrong_kind_are_refused(field, value):
    body = json.loads(VERSION.to_json_bytes())
    body[field] = value
    with pytest.raises(WeightsError):
        parse(Version, json.dumps(body).encode(), "it")


def test_records_of_before_there_were_assists_have_none():
    body = json.loads(OFFER.to_json_bytes())
    assert body.pop("assists") == []
    assert parse(Contribution, json.dumps(body).encode(), "it") == OFFER
    helped = dataclasses.replace(OFFER, assists=("flash", "flute"))
    assert parse(Contribution, helped.to_json_bytes(), "it") == helped


@pytest.mark.parametrize("names", ["flash", [5], ["../x"], ["a" * 41], {"flash": 1}, None])
def test_assists_that_are_no_names_are_refused(names):
    with pytest.raises(WeightsError, match="assists"):
        parse(Contribution, changed(assists=names), "it")
