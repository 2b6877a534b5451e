"""The error tree."""

from __future__ import annotations

import pickle
import re

import pytest

from artkit import errors

ALL = [getattr(errors, name) for name in errors.__all__]
ARTKIT_ERRORS = [error for error in ALL if issubclass(error, errors.ArtkitError)]


@pytest.mark.parametrize("error_type", ARTKIT_ERRORS)
def test_survives_pickling(error_type: type[errors.ArtkitError]) -> None:
    """Errors cross process boundaries and are kept in recordings."""
    error = error_type("groups_per_step=0 is not positive", "give it at least 1")

    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), copy.problem, copy.hint, str(copy)) == (error_type, error.problem, error.hint, str(error))


@pytest.mark.parametrize("error_type", ARTKIT_ERRORS)
def test_demands_a_hint(error_type: type[errors.ArtkitError]) -> None:
    """A message that does not say what to do next helps nobody."""
    with pytest.raises(TypeError, match="hint"):
        error_type("something is wrong")


@pytest.mark.parametrize("error_type", [error for error in ALL if error is not errors.ArtkitError])
def test_is_also_a_builtin(error_type: type[Exception]) -> None:
    """Code that knows nothing of artkit still catches what it expects."""
    assert issubclass(error_type, (ValueError, TypeError, RuntimeError))


def test_the_tree_in_the_docstring_is_the_real_one() -> None:
    """The picture at the top of the file is what people read."""
    drawn = dict(re.findall(r"(?m)^[ │├└─]*(\w+Error)(?: +\((\w+)\))?", errors.__doc__ or ""))

    real = {error.__name__: error.__bases__[-1] for error in ALL}
    assert drawn == {
        name: base.__name__ if base in (ValueError, TypeError, RuntimeError) else "" for name, base in real.items()
    }
