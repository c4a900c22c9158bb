"""A Dockerfile becomes an image of packages and steps, or is refused by its line."""

import pytest

from Daddy.core.errors import ConfigError
from Daddy.terminal.dockerfile import map_image, parse_dockerfile

WHOLE = r"""# a comment
ARG RELEASE=12
FROM debian:${RELEASE}-slim
ENV APP=/app MODE="two words"
WORKDIR $APP
RUN apt-get update && apt-get install -y --no-install-recommends \
    nano  ed \
    && rm -rf /var/lib/apt/lists/*
COPY data.txt notes/ ./
RUN echo "$MODE" > mode && \
    # joined
    chmod 600 mode
CMD ["bash"]
"""


def test_packages_go_into_the_image_and_all_else_becomes_steps() -> None:
    recipe = parse_dockerfile(WHOLE)
    assert recipe.image == "debian:12+ed+nano+tmux+util-linux"
    assert (recipe.folder, recipe.env) == ("/app", {"APP": "/app", "MODE": "two words"})
    made, copied, ran = recipe.steps
    assert (made.command, made.line) == ("mkdir -p /app", 5)
    assert (copied.sources, copied.target) == (("data.txt", "notes"), "/app/")
    assert ran.line == 10
    assert "chmod 600 mode" in ran.command
    assert (ran.folder, ran.env["MODE"]) == ("/app", "two words")


def test_what_pip_installs_is_downloaded_before_its_step() -> None:
    line = "RUN cd /x && python3 -m pip install --no-cache-dir six==1.17.0 'attrs>=23'"
    recipe = parse_dockerfile(f"FROM python:3.11\n{line}")
    (step,) = recipe.steps
    assert step.wheels == ("six==1.17.0", "attrs>=23")
    assert step.command == "cd /x && python3 -m pip install -q six==1.17.0 'attrs>=23'"
    assert recipe.image == "debian:12+python3-pip+tmux+util-linux"


def test_uv_is_a_wheel_and_what_it_installs_comes_by_pip() -> None:
    copied = "COPY --from=ghcr.io/astral-sh/uv:0.9.7 /uv /bin/"
    ran = "RUN uv pip install --system pytest==8.4.1"
    uv, pytest_step = parse_dockerfile(f"FROM python:3.12-slim\n{copied}\n{ran}").steps
    assert (uv.wheels, uv.command) == (("uv==0.9.7",), "python3 -m pip install -q uv==0.9.7")
    assert pytest_step.command == "python3 -m pip install -q pytest==8.4.1"


@pytest.mark.parametrize(
    ("base", "image"),
    [
        ("debian:bookworm-slim", "debian:12+tmux+util-linux"),
        ("debian:13.1", "debian:13+tmux+util-linux"),
        ("ubuntu:24.04", "debian:13+tmux+util-linux"),
        ("docker.io/library/python:3.11.9-slim", "debian:12+tmux+util-linux"),
        ("python:3-bookworm", "debian:12+tmux+util-linux"),
        ("python:3.12-slim@sha256:0a1b", "debian:13+tmux+util-linux"),
        ("public.ecr.aws/docker/library/ubuntu:22.04", "debian:12+tmux+util-linux"),
    ],
)
def test_a_base_maps_to_the_nearest_image_of_debian(base: str, image: str) -> None:
    assert map_image(base) == image


@pytest.mark.parametrize(
    "line",
    [
        "FROM alpine:3", "FROM python:3.7", "ADD a /b", "COPY --from=x a b", "COPY ../a b",
        "RUN pip install -r names.txt", "RUN pip install git+https://x",
        "RUN apt-get install -y nano=1.2", "USER nobody", "FROM debian:12",
        "COPY [1, 2]", 'RUN ["a", 1]', "COPY []",
    ],
)  # fmt: skip
def test_an_instruction_that_cannot_be_followed_is_named_with_its_line(line: str) -> None:
    before = "" if line.startswith("FROM a") or "3.7" in line else "FROM debian:12\n"
    number = before.count("\n") + 1
    with pytest.raises(ConfigError, match=f"line {number}: ") as error:
        parse_dockerfile(before + line)
    assert line in str(error.value)
