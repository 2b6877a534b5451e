r"""The last \boxed{} of a reply, compared as mathematics."""

from __future__ import annotations

import functools
import importlib.util
import re
from typing import Any

from artkit.errors import ConfigurationError
from artkit.rewards.graders.math_workers import MathWorkers
from artkit.rewards.graders.reply import answer_text
from artkit.rewards.graders.text_grader import Expected, Reply, TextGrader, scenario_label
from artkit.rewards.settings import check_positive

__all__ = ["boxed_math", "last_boxed"]

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


def boxed_math(
    *, timeout_s: float = 5.0, expected: Expected = scenario_label, reply: Reply = answer_text
) -> TextGrader:
    r"""Give 1 to a reply whose last `\boxed{}` equals what was expected as mathematics, else 0.

    So 0.5, 1/2 and \frac{2}{4} are equal; words belong inside \text{}, for letters side by side are a product. A
    reply without a box, or whose last box was cut off, is worth 0. An expression that takes too long to work out
    leaves its episode unscored. Comparing happens in processes of their own: what a model boxes can take forever.

    Needs math-verify: `pip install "artkit-rl[math]"`.

    Args:
        timeout_s: The deadline of one comparison, in seconds.
        expected: Where to find the expression, as LaTeX or as text that holds it in its last `\boxed{}`.
        reply: Where to find the reply.

    Raises:
        ConfigurationError: math-verify is not installed, or `timeout_s` is no positive finite number.

    Source: `verify` of Hugging Face's Math-Verify; the last box as in the MATH dataset, arXiv:2103.03874.
    """
    check_positive("timeout_s", timeout_s, "give seconds")
    if importlib.util.find_spec("math_verify") is None:
        raise ConfigurationError("boxed_math needs math-verify", 'pip install "artkit-rl[math]"')

    workers = _workers()

    def compare(said: str, right: Any) -> float:
        boxed, gold = last_boxed(said), str(right)
        if boxed is None:
            return 0.0
        return float(workers.is_equal(last_boxed(gold) or gold, boxed, timeout_s=timeout_s))

    return TextGrader(f"boxed_math(timeout_s={timeout_s!r})", compare, expected, reply)


@functools.cache
def _workers() -> MathWorkers:
    """Return the processes that all of these graders share, made with the first grader."""
    return MathWorkers()


def last_boxed(text: str) -> str | None:
    r"""Return what the last `\boxed{}` or `\fbox{}` in `text` holds; None if there is none, or it has no end.

    >>> last_boxed(r"first \boxed{1}, then \boxed{\frac{1}{2}}.")
    '\\frac{1}{2}'
    """
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return None
    start, depth = boxes[-1].end(), 1
    for brace in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)  # an escaped brace is none
        if depth == 0:
            return text[start : brace.start()].strip()
    return None
