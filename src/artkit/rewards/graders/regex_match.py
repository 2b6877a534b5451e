"""A regular expression."""

from __future__ import annotations

from typing import Any

import regex  # type: ignore[import-untyped]  # it ships no types

from artkit.errors import ConfigurationError, RewardError
from artkit.rewards.graders.reply import reply_text
from artkit.rewards.graders.text_grader import Reply, TextGrader, nothing_expected
from artkit.rewards.settings import check_positive

__all__ = ["regex_match"]


def regex_match(
    pattern: str, *, is_whole: bool = False, timeout_s: float = 1.0, reply: Reply = reply_text
) -> TextGrader:
    r"""Give 1 to a reply that `pattern` is found in, else 0.

    Some patterns take years on some texts, and Python's `re` lets no other thread run meanwhile: neither a deadline
    nor the event loop. So this is the `regex` package, whose patterns are those of `re` and more, and which keeps the
    deadline itself; an episode that it passes on is left unscored.

    Args:
        pattern: The regular expression; flags go inside, such as "(?s)" for a dot that matches line ends.
        is_whole: Whether the pattern must match all of the reply.
        timeout_s: The deadline, in seconds.
        reply: Where to find the reply. By default the whole text, reasoning and all, for its format to be checked.

    Raises:
        ConfigurationError: `pattern` is no regular expression, or `timeout_s` no positive finite number.

    Source: the `regex` package, whose `timeout` this is.

    >>> format_check = regex_match(r"(?s)<think>.*</think>\s*<answer>.*</answer>", is_whole=True)
    >>> format_check.grade("<think>2 + 3</think> <answer>5</answer>", None)
    1.0
    """
    check_positive("timeout_s", timeout_s, "give seconds")
    try:
        compiled = regex.compile(pattern)
    except (regex.error, TypeError) as error:
        raise ConfigurationError(f"pattern={pattern!r} is no regular expression: {error}", "mend it") from error
    find = compiled.fullmatch if is_whole else compiled.search

    def compare(said: str, _: Any) -> float:
        try:
            return float(find(said, timeout=timeout_s) is not None)
        except TimeoutError:
            msg = f"pattern={pattern!r} took longer than timeout_s={timeout_s:g} on a reply of {len(said)} characters"
            raise RewardError(msg, "write it without a repetition inside a repetition, such as (a+)+") from None

    return TextGrader(f"regex_match({pattern!r}, is_whole={is_whole!r})", compare, nothing_expected, reply)
