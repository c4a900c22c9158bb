"""Rewards come from the task's verifier alone, and no agent can forge one."""

from pathlib import Path

import pytest

from Daddy.terminal.terminal_gym import AsyncTerminalGymEnv
from scripts.benches._terminal_forgeries import FORGERIES, HOOKS, LINGER, PYTHON, REWARD, SHIMS
from tests.terminal.episodes import (
    COUNT,
    TASKS,
    backend,
    copy_task,
    play,
    read_result,
    solve,
    type_and_finish,
)


@pytest.mark.parametrize("task", sorted(path.name for path in TASKS.iterdir()))
def test_a_solution_earns_one_and_nothing_earns_nothing(task: str, tmp_path: Path) -> None:
    solved = solve(TASKS / task, tmp_path / "solved")
    assert solved.reward == pytest.approx(1.0), solved
    assert type_and_finish(TASKS / task, tmp_path / "idle", []).reward == 0.0


@pytest.mark.parametrize(
    ("forgery", "artifacts"),
    [
        *((name, '["/app"]') for name in FORGERIES),
        *((name, "[]") for name, lines in FORGERIES.items() if lines not in (HOOKS, SHIMS)),
    ],
)
def test_a_forged_reward_is_none(forgery: str, artifacts: str, tmp_path: Path) -> None:
    settings = (COUNT / "task.toml").read_text().replace('["/app"]', artifacts)
    task = copy_task(COUNT, tmp_path / "task", **{"task.toml": settings})
    result = type_and_finish(task, tmp_path / "runs", FORGERIES[forgery])
    assert (result.reward, result.done) == (0.0, True), result
    assert result.info["reason"] == "reward of the verifier"


def test_without_artifacts_a_program_of_the_agent_can_grade_it(tmp_path: Path) -> None:
    """The guide names this: the verifier then runs in all that the agent changed."""
    text = (COUNT / "task.toml").read_text().replace('artifacts = ["/app"]', "")
    task = copy_task(COUNT, tmp_path / "task", **{"task.toml": text})
    assert type_and_finish(task, tmp_path / "runs", SHIMS).reward == 1.0


def test_the_module_under_test_runs_where_no_reward_is_written(tmp_path: Path) -> None:
    """The episode ends where a step looks for tmux while /run is away, so there are five tries."""
    forged = [
        f"printf 'import atexit, os\\natexit.register(lambda: {PYTHON})\\n' > rotate.py",
        "echo 'os.system(\"rm -rf /tests /logs/verifier/*\")' >> rotate.py",
    ]
    forged.append("mv /run /run2; ln -s /run2 /run")
    for number in range(5):
        result = type_and_finish(TASKS / "devops_task", tmp_path / str(number), forged)
        assert result.reward == 0.0
        if result.info["reason"] != "the terminal has ended":
            break
    assert result.info["reason"] == "reward of the verifier"


@pytest.mark.parametrize(
    ("lines", "artifacts"),
    [
        (["for i in $(seq 300); do mkdir twenty-letter-folder; cd twenty*; done"], '["/app"]'),
        (["mkdir -p $(printf 'd/%.0s' {1..1200})"], '["/app"]'),
        (["mv /etc /etc2; ln -s /etc2 /etc"], "[]"),
    ],
)
def test_files_that_cannot_be_carried_earn_nothing(
    lines: list[str], artifacts: str, tmp_path: Path
) -> None:
    """An agent could else choose to be dropped."""
    settings = (COUNT / "task.toml").read_text().replace('["/app"]', artifacts)
    task = copy_task(COUNT, tmp_path / "task", **{"task.toml": settings})
    result = type_and_finish(task, tmp_path / "runs", lines)
    assert (result.reward, result.done) == (0.0, True), result
    assert "could not be carried" in result.info["reason"]


@pytest.mark.parametrize(
    ("line", "artifacts"),
    [
        ("chmod 000 errors.txt", '["/app"]'),
        ("chmod 000 /app", '["/app"]'),
        ("mkdir d; ln -s / d/x; chmod 555 d", '["/app"]'),
        ("chmod 000 /logs", "[]"),
        ("rm -rf /logs; echo > /logs; ln /logs /twin", "[]"),
    ],
)
def test_modes_and_links_keep_no_verifier_from_grading(
    line: str, artifacts: str, tmp_path: Path
) -> None:
    settings = (COUNT / "task.toml").read_text().replace('["/app"]', artifacts)
    task = copy_task(COUNT, tmp_path / "task", **{"task.toml": settings})
    result = type_and_finish(task, tmp_path / "runs", ["echo 7 > errors.txt", line])
    assert result.reward == 0.25, result


def test_no_link_of_the_agent_reaches_the_tests(tmp_path: Path) -> None:
    """A link is tried by each process of the verifier; its folder and ids are known before."""
    links = [
        "ln -s /tmp /app/lib; ln -s /proc/self/cwd/lib/../tests/expected.txt /app/by_folder",
        "for i in $(seq 2 99); do ln -s /proc/$i/root/tests/expected.txt by_id$i; done",
        "ln -s /dev/fd/9 by_descriptor; ln -s /etc/hostname good; ln -s / by_root; ln -s . by_loop",
    ]
    script = (
        "exec 9< /tests/expected.txt; [ -L good ] || exit 1; echo 0 > /logs/verifier/reward.txt;"
        "for link in by* by_*/tests/expected.txt; do"
        f" ! cmp $link /tests/expected.txt || {REWARD}; done"
    )
    files = {"tests__test.sh": script, "tests__expected.txt": "29"}
    result = type_and_finish(copy_task(COUNT, tmp_path / "task", **files), tmp_path / "runs", links)
    assert result.reward == 0.0, result


@pytest.mark.parametrize("artifacts", ['["/app"]', "[]"])
def test_the_verifier_sees_what_the_agent_deleted(artifacts: str, tmp_path: Path) -> None:
    settings = (COUNT / "task.toml").read_text().replace('["/app"]', artifacts)
    script = f"[ -e /app/logs/web.log ] || [ ! -e /app/logs/mail.log ] || {REWARD}"
    files = {"tests__test.sh": script, "task.toml": settings}
    task = copy_task(COUNT, tmp_path / "task", **files)
    assert type_and_finish(task, tmp_path / "runs", ["rm logs/web.log"]).reward == 1.0


def test_a_verifier_has_room_beside_a_full_agent_and_leaves_harmless_records(
    tmp_path: Path,
) -> None:
    files = {
        "tests__exercise.sh": r"printf '\033[31mred\n'",
        "tests__test.sh": "cat /logs/verifier/exercise.txt; head -c 30M /dev/zero > /tmp/x"
        f" && grep -q $'\033' /logs/verifier/exercise.txt && {REWARD}",
    }
    task = copy_task(COUNT, tmp_path / "task", **files)
    result = type_and_finish(task, tmp_path / "runs", ["head -c 50M /dev/zero > big"])
    assert result.reward == 1.0, result
    for name in ("exercise.txt", "verifier.txt"):
        (record,) = (tmp_path / "runs").glob(f"*/{name}")
        assert record.read_bytes() == b"?[31mred\n"


def test_partial_work_earns_a_part(tmp_path: Path) -> None:
    result = type_and_finish(COUNT, tmp_path, ["echo 7 > errors.txt"])
    assert result.reward == 0.25
    told = read_result(tmp_path)
    assert told["rewards"] == {"format": 0.25, "count": 0.0}
    assert told["isolation"] == backend().isolation().level


def test_an_agent_that_kills_all_ends_its_own_episode_with_zero(tmp_path: Path) -> None:
    result = type_and_finish(COUNT, tmp_path, ["kill -9 -1"])
    assert (result.reward, result.done) == (0.0, True)
    assert read_result(tmp_path)["reason"] == "the terminal has ended"


def test_the_end_of_the_agents_own_sandbox_earns_nothing(tmp_path: Path) -> None:
    async def story(env: AsyncTerminalGymEnv) -> float | None:
        assert env._sandbox
        env._sandbox._kill()
        return await env.verify()

    assert play(COUNT, tmp_path, story) == 0.0


def test_grading_in_place_is_marked_as_forgeable(tmp_path: Path) -> None:
    text = (COUNT / "task.toml").read_text().replace('"separate"', '"shared"')
    task = copy_task(COUNT, tmp_path / "task", **{"task.toml": text})
    result = type_and_finish(task, tmp_path / "runs", [LINGER])
    assert result.info["forgeable"]
    spoiled = "could not be carried" in result.info["reason"]
    assert result.reward != 0.0 or spoiled, "forged, or spoiled"
    assert read_result(tmp_path / "runs")["verifier"] == "in place"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 3", "it left none"),
        ("echo many > /logs/verifier/reward.txt", "could not convert"),
        (f"{REWARD}; echo '{{}}' > /logs/verifier/reward.json", "reward.txt and reward.json"),
        ("sleep 100", "timed out"),
    ],
)
def test_a_verifier_that_fails_drops_the_episode(script: str, reason: str, tmp_path: Path) -> None:
    settings = (COUNT / "task.toml").read_text().replace("timeout_sec = 30.0", "timeout_sec = 2.0")
    files = {"tests__test.sh": script, "task.toml": settings}
    task = copy_task(COUNT, tmp_path / "task", **files)
    result = type_and_finish(task, tmp_path / "runs", [])
    assert result.reward is None, "dropped, not 0"
    assert reason in result.info["reason"]
