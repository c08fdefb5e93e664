"""The errors a person can cause or meet, each with the exit code the command line ends with."""

from __future__ import annotations


class LeadlineError(Exception):
    """Root of every error Leadline raises on purpose. The message says what is wrong and what to do."""

    exit_code = 1


class UsageError(LeadlineError):
    """Bad usage, configuration or input table: the person who ran the command can mend it."""

    exit_code = 2


class ArtefactError(LeadlineError):
    """A bundle, an encoder or a download is not what it claims to be; it was not used."""

    exit_code = 3


class InferenceError(ArtefactError):
    """A model broke while running: on what it was given, or altogether."""


class ServiceError(LeadlineError):
    """A service could not be reached."""

    exit_code = 4
