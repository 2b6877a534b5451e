"""What holds for every adapter."""

from __future__ import annotations

import subprocess
import sys

import pytest

from artkit.environments import SingleTurnEnvironment
from artkit.environments.adapters import (
    GymnasiumEnvironment,
    GymnasiumScenario,
    TextArenaEnvironment,
    TextArenaScenario,
    reasoning_gym_scenarios,
)
from artkit.environments.adapters.optional_module import optional_module
from artkit.errors import ConfigurationError

PROBE = """
import sys
import artkit, artkit.environments, artkit.environments.adapters
print(sorted({"reasoning_gym", "gymnasium", "textarena"} & set(sys.modules)))
"""


class World(GymnasiumEnvironment):
    def make(self):
        raise AssertionError


def test_importing_the_adapters_loads_none_of_their_packages() -> None:
    """Who uses one of them need not have, nor wait for, the others."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)

    assert (done.stdout.strip(), done.stderr) == ("[]", "")


async def use_reasoning_gym() -> None:
    reasoning_gym_scenarios("chain_sum", count=1)


async def use_gymnasium() -> None:
    await World().reset(GymnasiumScenario(id="a", seed=0))


async def use_textarena() -> None:
    await TextArenaEnvironment().reset(TextArenaScenario(id="a", game="TicTacToe-v0", seed=0))


@pytest.mark.parametrize(
    ("use", "package", "extra"),
    [
        (use_reasoning_gym, "reasoning_gym", "reasoning-gym"),
        (use_gymnasium, "gymnasium", "gymnasium"),
        (use_textarena, "textarena", "textarena"),
    ],
)
async def test_a_missing_package_is_named_with_its_extra(use, package, extra, monkeypatch) -> None:
    """It is the commonest first error, and has one answer."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(ConfigurationError, match=rf'{package} is not installed.*pip install "artkit-rl\[{extra}\]"'):
        await use()


def test_a_package_that_lacks_something_itself_says_so(tmp_path, monkeypatch) -> None:
    """To install it again would not help."""
    (tmp_path / "half_installed.py").write_text("import something_it_needs\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModuleNotFoundError, match="something_it_needs"):
        optional_module("half_installed", extra="any")


async def test_an_environment_that_never_began_closes() -> None:
    """`close` is called on every path, also where `reset` failed."""
    for environment in (World(), TextArenaEnvironment(), SingleTurnEnvironment()):
        await environment.close()
