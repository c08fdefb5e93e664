"""What the command line says about itself."""

from __future__ import annotations

import re

import pytest

from tests.cli.workbench import finished, leadline, start

COMMANDS = ("", "demo", "encoder", "encoder fetch", "fit", "score", "run", "check")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_a_terminal(command: str) -> None:
    """`--help` of every command ends with 0 and fits 80 columns."""
    told = leadline(*command.split(), "--help")
    assert told.code == 0
    assert f"{command} [OPTIONS]" in told.out
    assert max(map(len, told.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--nonsense"], "No such option: --nonsense"),
        (["nonsense"], "No such command 'nonsense'"),
        (["fit"], "Missing argument"),
        (["fit", "fit.yaml"], "Missing option '--out'"),
        (
            ["encoder", "fetch", "all-MiniLM-L6-v2", "--out", "x", "--precision", "int4"],
            "Invalid value for '--precision'",
        ),
        (["demo", "--rate", "0"], "Invalid value for '--rate'"),
    ],
)
def test_bad_usage_ends_with_2(arguments: list[str], complaint: str) -> None:
    """Bad usage ends with 2 and names what is wrong."""
    told = leadline(*arguments)
    assert told.code == 2
    assert complaint in " ".join(re.sub("[│╭╮╰╯─]", " ", told.err).split())


def test_nothing_asked_for_shows_the_help() -> None:
    """Without a command, the commands are shown and the exit code is that of bad usage."""
    told = leadline()
    assert told.code == 2
    assert "Commands" in told.out + told.err


def test_an_unknown_encoder_is_bad_usage() -> None:
    """An encoder that is not known is refused with the names of those that are."""
    told = leadline("encoder", "fetch", "word2vec", "--out", "unused")
    assert (told.code, told.complaints) == (2, ["unknown encoder 'word2vec'; known: all-MiniLM-L6-v2"])


def test_the_installed_command_ends_as_the_function_does() -> None:
    """The installed `leadline` gives help with 0, and an error in plain words with its exit code."""
    helped, refused = start("--help"), start("check", "absent.yaml")
    assert finished(helped).code == 0
    told = finished(refused)
    assert (told.code, told.complaints) == (2, ["absent.yaml: no such file"])
