import multiprocessing

from Daddy.core.lease import Lease, end_term, newest_term_state, read_lease
from tests.patience import PATIENCE_S


def test_one_holder_at_a_time_and_terms_only_grow(tmp_path):
    first = Lease.acquire(tmp_path, {"token": "a"})
    assert first.term == 1
    assert Lease.acquire(tmp_path, {"token": "b"}) is None
    first.release("drained")
    second = Lease.acquire(tmp_path, {"token": "b"})
    assert second.term == 2
    assert not first.held()
    assert second.held()


def test_a_holder_whose_term_was_ended_by_another_sees_that_it_is_fenced(tmp_path):
    lease = Lease.acquire(tmp_path, {"token": "a"})
    assert end_term(tmp_path, lease.term, "its job is gone")
    assert not lease.held()
    assert not end_term(tmp_path, lease.term, "said twice")
    assert read_lease(tmp_path).ended == "its job is gone"


def test_a_beat_belongs_to_its_term(tmp_path):
    first = Lease.acquire(tmp_path, {"token": "a"})
    first.beat({"step": 5})
    assert read_lease(tmp_path).beat == {"step": 5, "term": 1, "counter": 1}
    first.release("over")
    Lease.acquire(tmp_path, {"token": "b"})
    assert read_lease(tmp_path).beat == {}


def test_nobody_ever_held_it(tmp_path):
    assert read_lease(tmp_path / "never") is None


def _race(folder, barrier, wins):
    barrier.wait()
    wins.put(Lease.acquire(folder, {"token": "x"}) is not None)


def test_of_eight_processes_that_claim_at_once_one_wins(tmp_path):
    context = multiprocessing.get_context("fork")
    for round_number in range(5):
        barrier, wins = context.Barrier(8), context.Queue()
        folder = tmp_path / str(round_number)
        racers = [context.Process(target=_race, args=(folder, barrier, wins)) for _ in range(8)]
        for racer in racers:
            racer.start()
        assert sum(wins.get(timeout=PATIENCE_S) for _ in racers) == 1
        for racer in racers:
            racer.join()


def test_terms_go_on_after_the_millionth(tmp_path):
    (tmp_path / "term-999999.json").write_text("{}")
    end_term(tmp_path, 999_999, "done")
    for term in (1_000_000, 1_000_001):
        lease = Lease.acquire(tmp_path, {"who": "a"})
        assert lease is not None
        assert lease.term == term
        lease.release("done")


def test_how_a_lease_stands_is_told_by_names_alone(tmp_path) -> None:
    folder = tmp_path / "lease"
    assert newest_term_state(folder) == (0, False)
    lease = Lease.acquire(folder, {})
    assert lease is not None
    assert newest_term_state(folder) == (1, False)
    lease.beat()
    lease.release("wall time")
    assert newest_term_state(folder) == (1, True)
    assert Lease.acquire(folder, {}) is not None
    assert newest_term_state(folder) == (2, False)
