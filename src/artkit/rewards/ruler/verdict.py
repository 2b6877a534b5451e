"""The verdict: what a judge's reply says of each transcript, or what is wrong with it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from artkit.rewards.ruler.json_values import BrokenJsonError, DuplicateKeyError, FoundJson, find_json
from artkit.rewards.ruler.quotation import is_quotation

if TYPE_CHECKING:
    from artkit.rewards.judges import JudgeReply

__all__ = ["Judgement", "Unreadable", "Verdict", "read_verdict"]

# A name of ours outside of all JSON is a part of JSON that cannot be read. What can be read beside it may be a mere
# quotation: a transcript's own "scores" in an explanation whose quotes the judge did not escape.
_BROKEN = re.compile(r"[\"'`](?:scores|trajectory_id|score)[\"'`]\s*:")
# What follows the JSON and gives scores itself, in YAML, a table or prose, or takes it back.
_SCORE = (
    r"\W{0,9}(?:\b(?:is|gets?|scores?|has|earns|receives|with|of|a)\b\W{0,9}){0,5}(?:0|1|0?\.\d+|[01]\.\d+)(?![\w%])"
)
_OTHER_SCORES = re.compile(
    rf"\btrajector(?:y|ies)\b(?:[\s_]*ids?\b)?\W{{0,5}}\d+{_SCORE}"
    r"|\b(?:scores?|trajectory_id)\b[\"'`*]*\s*[:=]\s*[\"'`*]*[\[\d.]"
    rf"|^[ \t|#*-]*\d+\b[ \t]*[|:=]{_SCORE}",
    re.IGNORECASE | re.MULTILINE,
)
_REFUSAL = re.compile(
    r"\bI(?:['\u2019]m| am)? (?:can(?:no|['\u2019])t|won['\u2019]t|will not|refuse|decline|not able|unable)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")


def _id_text(value: Any) -> Any:
    """Return an integer id as the text it stands for."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else value


def _plain_number(value: Any) -> Any:
    """Refuse what pydantic would take for a number and no judge means as one, such as true or "inf"."""
    if isinstance(value, bool) or (isinstance(value, str) and not _NUMBER.fullmatch(value)):
        raise ValueError("no number")
    return value


class Judgement(BaseModel):
    """What a judge says of one transcript.

    Attributes:
        trajectory_id: The id that the transcript was shown under.
        score: In [0, 1].
        explanation: Why.
    """

    model_config = ConfigDict(frozen=True)

    trajectory_id: Annotated[str, BeforeValidator(_id_text)] = Field(
        validation_alias=AliasChoices("trajectory_id", "id")
    )
    score: Annotated[float, BeforeValidator(_plain_number), Field(ge=0, le=1, allow_inf_nan=False)]
    explanation: Annotated[str, BeforeValidator(lambda value: "" if value is None else str(value))] = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judgement for each id that was asked about, by id."""

    judgements: Mapping[str, Judgement]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A reply that gives no verdict.

    Attributes:
        problem: What is wrong with it, in words that the judge is told.
        words: What the judge said.
    """

    problem: str
    words: str


def read_verdict(
    reply: JudgeReply, ids: Sequence[str], *, shown: Sequence[dict[str, Any]] = ()
) -> Verdict | Unreadable:
    """Read a reply: every id must have exactly one score in [0, 1], and no other id may have any.

    Nothing is padded, clamped or guessed: a reply that leaves something open is `Unreadable`. So is one whose scores
    stand in what the judge was shown, for then they are a quotation of what an agent wrote.

    Args:
        reply: What the judge said.
        ids: Whom it was asked about.
        shown: The messages that it was asked with.
    """
    text = reply.text or ""
    if reply.refusal:
        return Unreadable("it was a refusal", reply.refusal)
    if not text.strip():
        return Unreadable("it was empty", "")
    if reply.finish_reason == "length":
        return Unreadable("it was cut off at its length limit; keep the explanations short", text)
    try:
        found = find_json(text)
    except (BrokenJsonError, DuplicateKeyError) as error:
        return Unreadable(str(error), text)
    rows_of = [(_rows(value), source) for value, source in zip(found.values, found.texts, strict=True)]
    answers = [(rows, source) for rows, source in rows_of if rows is not None]
    if problem := _doubt(found, answers, shown):
        return Unreadable(problem, text)
    result = _judgements(answers[0][0], ids)
    return Unreadable(result, text) if isinstance(result, str) else Verdict(result)


def _doubt(found: FoundJson, answers: Sequence[tuple[list[Any], str]], shown: Sequence[dict[str, Any]]) -> str | None:
    """Return why it is not plain which scores the judge gave, or None."""
    if _BROKEN.search(found.rest):
        return "its JSON was broken; are all quotes inside the explanations escaped?"
    if not answers:
        return 'there was no JSON object with a list "scores" in it'
    if any(rows != answers[0][0] for rows, _ in answers):
        return "it held more than one list of scores, and they differ"
    if any(rows and is_quotation(rows, source, shown) for rows, source in answers):
        return "its scores are a quotation of what stands in a trajectory; give your own, and quote none"
    if _OTHER_SCORES.search(found.after):
        return "it gave scores outside of the JSON too; give them in the JSON alone"
    return "it was a refusal" if _REFUSAL.search(found.after) else None


def _rows(value: Any) -> list[Any] | None:
    """Return the rows of what looks like an answer: `{"scores": [...]}`, or the bare list."""
    if isinstance(value, Mapping):
        rows = value.get("scores")
        return rows if isinstance(rows, list) else None
    is_answer = all(isinstance(row, Mapping) and "score" in row for row in value)
    return list(value) if is_answer else None


def _judgements(rows: list[Any], ids: Sequence[str]) -> dict[str, Judgement] | str:
    """Return the judgements by id, or what is wrong with them."""
    problems, read = [], []
    for number, row in enumerate(rows, start=1):
        try:
            read.append(Judgement.model_validate(row))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the object"
            problems.append(f"score object {number}: {where} {first['input']!r:.100}: {first['msg']}")
    if problems:
        return "; ".join(problems[:3])
    counts = Counter(judgement.trajectory_id for judgement in read)
    for what, wrong in (
        ("no score for", [name for name in ids if name not in counts]),
        ("more than one score for", [name for name in ids if counts[name] > 1]),
        ("a score for the unknown", [name for name in counts if name not in ids]),
    ):
        if wrong:
            problems.append(f"{what} trajectory {', '.join(wrong)[:200]}")
    if problems:
        return f"it held {len(read)} scores for {len(ids)} trajectories: {'; '.join(problems)}"
    return {judgement.trajectory_id: judgement for judgement in read}
