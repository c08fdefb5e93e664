"""Why a record was discarded: the bounded reasons, and the error that carries one."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why a record was discarded. Bounded, because it becomes a metric's label."""

    UNREADABLE = "unreadable"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    TOMBSTONE = "tombstone"
    DUPLICATE = "duplicate"
    NOT_AN_EVENT = "not_an_event"
    NOT_THIS_FORMAT = "not_this_format"
    MISALIGNED = "misaligned"
    TOO_MANY_ITEMS = "too_many_items"
    NO_REQUEST = "no_request"
    NO_RESPONSE = "no_response"
    NOT_WANTED = "not_wanted"
    PARTITION_LOST = "partition_lost"
    SCORING_FAILED = "scoring_failed"
    TOO_LARGE = "too_large"
    MALFORMED_ROW = "malformed_row"
    LABEL_ONLY = "label_only"
    NO_TEXT = "no_text"
    TEXT_NOT_STRING = "text_not_string"
    EMPTY_TEXT = "empty_text"
    NO_TOKENS = "no_tokens"
    TOKENS_NOT_STRINGS = "tokens_not_strings"
    TOKENS_MISMATCH = "tokens_mismatch"
    WRONG_TYPE = "wrong_type"
    ID_TOO_LONG = "id_too_long"
    INVALID_TIME = "invalid_time"
    FUTURE_TIME = "future_time"
    LATE = "late"
    OTHER_MODEL = "other_model"
    UNKNOWN_LABEL = "unknown_label"
    NO_LOGITS = "no_logits"
    LOGITS_WIDTH = "logits_width"
    LOGITS_NOT_FINITE = "logits_not_finite"
    NO_FEATURES = "no_features"
    FEATURES_WIDTH = "features_width"
    FEATURES_NOT_FINITE = "features_not_finite"


# Reasons that say nothing of the record's form: such a message is no dead letter, and no sign of a new format.
HARMLESS = frozenset(
    {
        Reason.LATE,
        Reason.OTHER_MODEL,
        Reason.TOMBSTONE,
        Reason.DUPLICATE,
        Reason.NO_REQUEST,
        Reason.NO_RESPONSE,
        Reason.NOT_WANTED,
        Reason.PARTITION_LOST,
        Reason.SCORING_FAILED,
    }
)


class RejectedError(Exception):
    """This record cannot be used; `reason` says why. Counted by the reader, never fatal."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason
