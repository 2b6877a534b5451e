"""Games of textarena, alone and against others."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import pytest

from artkit.environments import Action, StepResult, check_environment
from artkit.environments.adapters import TextArenaEnvironment, TextArenaScenario, textarena_scenarios
from artkit.environments.adapters.own_random import OwnRandom
from artkit.errors import ConfigurationError, EnvironmentContractError
from artkit.rollouts import Rollout
from artkit.testing import ChatServer, choice

pytestmark = pytest.mark.worlds

NUMBER = TextArenaScenario(id="number", game="GuessTheNumber-v0", seed=4)
NOUGHTS = TextArenaScenario(id="noughts", game="TicTacToe-v0", seed=4, players=2)


class AgainstTopRow(TextArenaEnvironment):
    """The other player takes the first square that is free."""

    async def opponent(self, player, observation):
        self.seen = [*getattr(self, "seen", []), observation]
        return observation.rpartition("Available Moves: '")[2].partition("'")[0]


def action(text: str) -> Action:
    return Action(choice(text).message)


async def played(scenario: TextArenaScenario, moves: list[str], *, pause: bool = False) -> list[Any]:
    """What is told, turn by turn; with pauses others run in between."""
    environment = TextArenaEnvironment()
    told: list[Any] = [await environment.reset(scenario)]
    for move in moves:
        if pause:
            await asyncio.sleep(0)
        result = await environment.step(action(move))
        told.append(result)
        if result.done:
            break
    await environment.close()
    return told


def hidden_number(seed: int) -> int:
    """The number that the game draws, by hand."""
    import textarena

    with OwnRandom(0).drawing():
        game = textarena.make("GuessTheNumber-v0")
        game.reset(num_players=1, seed=seed)
        return game.state.game_state["game_number"]


async def test_a_game_alone_is_played_to_its_reward() -> None:
    """Each message holds what is new, and the end what the game says of it."""
    number = hidden_number(4)
    other = number - 1 if number > 1 else number + 1
    hint = "higher" if other < number else "lower"

    prompt, first, last = await played(NUMBER, [f"Perhaps [{other}]", f"{number}"])

    assert prompt.startswith("[GAME] You are Player 0. You are playing Guess The Number.")
    assert first == StepResult(f"[GAME] The target number is {hint}.")
    assert last == StepResult(
        done=True,
        reward=1.0,
        metrics={"invalid_move": False, "opponent_invalid_move": False},
        outcome={"reason": "Congratulations! You guessed the correct number.", "turns": 2},
        messages="",
    )


async def test_a_model_plays_it_in_a_rollout() -> None:
    """Brackets that the game wants are put by the package where the model leaves them out."""
    async with ChatServer(["1", "nothing", "nothing"]) as server:
        model = server.model()
        episode = await Rollout(TextArenaEnvironment)(model, NUMBER)
        await model.openai_client().close()

    assert (episode.metrics["turns"], episode.metrics["invalid_move"]) == (3, True)
    assert episode.outcome["reason"].startswith("Invalid Move: Invalid move format.")
    assert episode.reward == pytest.approx(1 - (hidden_number(4) - 1) / 19)


async def test_the_other_player_is_the_environments() -> None:
    """It sees what it would see, the model its board; the one who moves first is who the scenario says."""
    first, second = AgainstTopRow(), AgainstTopRow()

    await first.reset(NOUGHTS)
    results = [await first.step(action(move)) for move in ("[4]", "[8]", "[6]")]
    board = await second.reset(TextArenaScenario(**{**dict(NOUGHTS), "player": 1}))

    assert "X won" not in str(results)
    assert (results[-1].done, results[-1].reward) == (True, -1.0)  # 0, 1 and 2 are the other's by then
    assert results[-1].outcome == {"reason": "Player 1 has won!", "turns": 3}
    assert first.seen[0].startswith("[GAME] You are Player 1 in Tic Tac Toe.")
    assert "[Player 0] [8]" in first.seen[1].splitlines()
    assert "[Player 1]" not in first.seen[1]  # its own move was its own
    assert "Player 0 placed their symbol (O) in cell 0." in board
    assert "[Player 1]" not in board


async def test_a_random_opponent_plays_moves_that_there_are() -> None:
    """By the scenario's seed; never one that loses for nothing."""
    ends = []
    for scenario in textarena_scenarios("TicTacToe-v0", count=6, players=2):
        told = await played(scenario, [f"[{cell}]" for cell in (4, 0, 8, 2, 6, 1, 3, 5, 7) for _ in range(2)])
        ends.append((told[-1].metrics["opponent_invalid_move"], told[-1].done))

    assert ends == [(False, True)] * 6


@pytest.mark.parametrize(
    ("scenario", "moves"),
    [
        (NUMBER, ["1", "20", "7", "8", "9", "10"]),
        (NOUGHTS, [f"[{cell}]" for cell in range(9)]),
        (TextArenaScenario(id="dice", game="PigDice-v0", seed=9, players=2), ["[roll]", "[roll]", "[hold]"] * 5),
    ],
)
async def test_games_side_by_side_play_as_they_do_alone(scenario: TextArenaScenario, moves: list[str]) -> None:
    """They share the process's generators, and all begin by seeding them."""
    alone = await played(scenario, moves)

    others = [scenario.model_copy(update={"seed": seed}) for seed in range(5)]
    together = await asyncio.gather(*(played(one, moves, pause=True) for one in [scenario, *others, scenario]))

    assert (together[0], together[-1]) == (alone, alone)


@pytest.fixture
def dice(monkeypatch: pytest.MonkeyPatch) -> str:
    """A game that draws by numpy too, as some of the package do, and ends with whatever reward its settings say."""
    import textarena
    from textarena.envs.registration import ENV_REGISTRY, EnvSpec

    class Dice(textarena.Env):
        def __init__(self, reward: float | None = 1.0) -> None:
            self.reward = reward

        def reset(self, num_players, seed=None):
            self.state = textarena.SinglePlayerState(num_players=num_players, seed=seed)
            self.state.reset(game_state={})
            drawn = f"{np.random.randint(10**9)} {random.random()}"
            self.state.add_observation(drawn, textarena.ObservationType.PROMPT)

        def step(self, action):
            if self.reward is not None:
                self.state.set_outcome(self.reward, "over")
            self.state.done = True
            return self.state.step()

    monkeypatch.setitem(ENV_REGISTRY, "Dice-v0", EnvSpec("Dice-v0", Dice, None))
    return "Dice-v0"


async def test_a_game_that_draws_by_numpy_follows_its_seed_too(dice: str) -> None:
    """The package seeds `random` alone."""
    starts = [await played(TextArenaScenario(id="a", game=dice, seed=seed), []) for seed in (4, 4, 5)]

    assert starts[0] == starts[1]
    assert starts[0][0].split()[1] != starts[2][0].split()[1]


async def test_a_game_that_ends_without_a_reward_has_failed(dice: str) -> None:
    """A reward that is missing is not 0."""
    scenario = TextArenaScenario(id="a", game=dice, seed=4, settings={"reward": None})

    with pytest.raises(EnvironmentContractError, match="Dice-v0 ended without a reward for player 0: None"):
        await played(scenario, ["roll"])


async def test_the_rest_of_the_program_draws_on() -> None:
    """The package seeds the global generator at each reset."""
    random.seed(1)
    np.random.seed(1)
    expected = [random.random(), random.random()], [np.random.random(), np.random.random()]
    random.seed(1)
    np.random.seed(1)

    drawn = [random.random()], [np.random.random()]
    await played(NOUGHTS, ["[4]", "[0]"])
    drawn = [*drawn[0], random.random()], [*drawn[1], np.random.random()]

    assert drawn == expected


async def test_an_opponent_without_listed_moves_is_asked_for() -> None:
    """To make one up would be no game."""
    with pytest.raises(EnvironmentContractError, match=r"lists no moves for player 1.*override opponent"):
        await played(TextArenaScenario(id="a", game="SimpleNegotiation-v0", seed=0, players=2), ["hello"])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"game": "TicTacTo-v0"}, r"no game 'TicTacTo-v0'.*did you mean TicTacToe-v0"),
        ({"players": 3}, r"TicTacToe-v0 refuses players=3"),
        ({"settings": {"size": 4}}, r"refuses.*'size': 4"),
    ],
)
async def test_what_the_package_does_not_know_is_refused(changes: dict[str, Any], problem: str) -> None:
    """With its own words."""
    with pytest.raises(ConfigurationError, match=problem):
        await TextArenaEnvironment().reset(NOUGHTS.model_copy(update=changes))


def test_a_place_at_the_table_must_be_there() -> None:
    """Found out when the data is made."""
    with pytest.raises(ValueError, match="player 2 is none of 2"):
        TextArenaScenario(id="a", game="TicTacToe-v0", seed=0, players=2, player=2)


def test_the_places_are_taken_in_turn() -> None:
    """Who moves first has it easier in many games."""
    scenarios = textarena_scenarios("TicTacToe-v0", count=3, seed=7, players=2, first_player=1)

    assert [(one.id, one.seed, one.player) for one in scenarios] == [
        ("TicTacToe-v0-7-player1of2", 7, 1),
        ("TicTacToe-v0-8-player0of2", 8, 0),
        ("TicTacToe-v0-9-player1of2", 9, 1),
    ]


def test_games_that_differ_have_ids_that_do() -> None:
    """Lists are joined, and a run that resumes tells its scenarios apart by their ids."""
    lists = [
        textarena_scenarios("TicTacToe-v0", count=2),
        textarena_scenarios("TicTacToe-v0", count=2, players=2),
        textarena_scenarios("TicTacToe-v0", count=2, players=2, first_player=1),
        textarena_scenarios("TicTacToe-v0", count=2, players=3),
        textarena_scenarios("TicTacToe-v0", count=2, settings={"size": 4}),
    ]

    assert len({scenario.id for scenarios in lists for scenario in scenarios}) == 10
    assert lists[4][0].settings == {"size": 4}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"game": "NoSuchGame"}, "no game 'NoSuchGame'.*did you mean TicTacToe-v0"),
        ({"game": "TicTacToe"}, "did you mean TicTacToe-v0 or"),
        ({"count": 0}, "count=0 is no number"),
        ({"count": -3}, "count=-3 is no number"),
        ({"seed": -1}, "seed=-1 is no seed"),
        ({"players": 0}, "players=0, first_player=0 leave the model no place"),
        ({"players": 2, "first_player": 2}, "players=2, first_player=2 leave the model no place"),
    ],
)
def test_games_that_cannot_be_are_refused_when_they_are_listed(arguments: dict[str, Any], problem: str) -> None:
    """Not in the first rollout."""
    with pytest.raises(ConfigurationError, match=problem):
        textarena_scenarios(**{"game": "TicTacToe-v0", "count": 1, **arguments})


def test_listing_games_draws_nothing() -> None:
    """The program's own draws come as they would."""
    before = random.getstate()
    textarena_scenarios("GuessTheNumber-v0", count=3)

    assert random.getstate() == before


async def test_games_keep_an_environments_promises() -> None:
    """Also the ones that draw while they are played, in another process too."""
    scenarios = [
        *textarena_scenarios("TicTacToe-v0", count=2, players=2),
        *textarena_scenarios("GuessTheNumber-v0", count=1),
        *textarena_scenarios("PigDice-v0", count=1, players=2),
    ]
    report = await check_environment(TextArenaEnvironment, scenarios, actions=["[4]", "[0]", "[roll]", "[hold]"])

    assert report.findings == ()
    assert [why for why in report.left_out if "process" in why] == []
