"""Hugging Face text classification: `{"inputs": …}` asks, lists of `{"label", "score"}` answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.payloads.answers import pair, probable, scored
from agent.payloads.contract import Kind
from agent.payloads.items import bounded, parts, text_fields
from agent.reasons import Reason, RejectedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.payloads.contract import Part, Payload


def decode(payload: Payload, labels: Sequence[str]) -> Sequence[Part]:
    """One half a message, one part a text."""
    content = payload.content
    asks = isinstance(content, dict) and "inputs" in content
    if payload.kind not in {None, Kind.REQUEST if asks else Kind.RESPONSE}:
        raise RejectedError(Reason.NOT_THIS_FORMAT)
    if isinstance(content, dict) and asks:
        inputs = content["inputs"]
        texts = bounded(inputs) if isinstance(inputs, list) else [inputs]
        return parts(Kind.REQUEST, payload, [text_fields(text) for text in texts])
    return parts(Kind.RESPONSE, payload, [scored(entries, labels) for entries in _answers(content)])


def _answers(content: object) -> list[list[object]]:
    """The entries of each text."""
    answers = bounded([content] if isinstance(content, dict) else content)
    if not answers or not isinstance(answers[0], list):
        return [answers] if _of_one_text(answers) else [[entry] for entry in answers]
    lists = [entries for entries in answers if isinstance(entries, list) and entries]
    if len(lists) != len(answers):
        raise RejectedError(Reason.NOT_THIS_FORMAT)
    return lists


def _of_one_text(entries: Sequence[object]) -> bool:
    """Whether a flat list holds the classes of one text, and not the best class of several texts.

    The scores of one text add up to 1. The best of several could only if each were 1 in as many as there are.
    """
    labels, scores = zip(*map(pair, entries), strict=True) if entries else ((), ())
    return len(scores) > 1 and len(set(map(str, labels))) == len(labels) and probable(scores)
