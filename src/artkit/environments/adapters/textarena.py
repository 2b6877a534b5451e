"""The games of `textarena`: alone, or against opponents that are part of the environment."""

from __future__ import annotations

import difflib
import importlib
import random
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from artkit.environments.adapters.counted import counted_seeds, name_with
from artkit.environments.adapters.optional_module import optional_module
from artkit.environments.adapters.own_random import OwnRandom
from artkit.environments.environment import Environment
from artkit.environments.step_result import StepResult
from artkit.errors import ConfigurationError, EnvironmentContractError
from artkit.scenarios import Scenario

if TYPE_CHECKING:
    from artkit.environments.action import Action

__all__ = ["TextArenaEnvironment", "TextArenaScenario", "textarena_scenarios"]

_LISTED = re.compile(r"(?:available|valid|legal) (?:moves|actions)", re.IGNORECASE)
_MOVE = re.compile(r"\[[^\[\]\n]+\]")


class TextArenaScenario(Scenario):
    """One game.

    Attributes:
        game: Its name and version in textarena, such as "TicTacToe-v0".
        seed: What is drawn in it.
        players: How many play.
        player: Which of them the model is, from 0.
        settings: Settings of the game that are not its defaults.
    """

    game: str
    seed: int
    players: int = Field(default=1, ge=1)
    player: int = Field(default=0, ge=0)
    settings: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_seated(self) -> Self:
        if self.player >= self.players:
            msg = f"player {self.player} is none of {self.players}, counted from 0"
            raise ValueError(msg)  # what pydantic turns into an error of the model
        return self


def textarena_scenarios(
    game: str,
    *,
    count: int,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    players: int = 1,
    first_player: int = 0,
) -> list[TextArenaScenario]:
    """Return `count` games, seeded from `seed` on; the model takes the players' places in turn, from `first_player` on.

    Args:
        game: Its name and version in textarena, such as "TicTacToe-v0".
        count: How many games.
        seed: Of the first game; each next one has the next seed.
        settings: Settings of the game that are not its defaults, by name.
        players: How many play.
        first_player: Which of them the model is in the first game, from 0.

    Raises:
        ConfigurationError: The package is not installed, or it knows no such game; or a number is none.
    """
    seeds = counted_seeds(count, seed)
    if players < 1 or not 0 <= first_player < players:
        raise ConfigurationError(
            f"players={players!r}, first_player={first_player!r} leave the model no place",
            "give 1 player or more, and a first_player that is one of them, counted from 0",
        )
    with OwnRandom(0).drawing():  # what is imported may draw, and the program's own draws are not to change
        _check_game(game)
    own = dict(settings or {})
    name = name_with(game, settings=own)
    places = [(number, (first_player + index) % players) for index, number in enumerate(seeds)]
    return [
        TextArenaScenario(
            id=f"{name}-{number}" if players == 1 else f"{name}-{number}-player{player}of{players}",
            game=game,
            seed=number,
            players=players,
            player=player,
            settings=own,
        )
        for number, player in places
    ]


class TextArenaEnvironment(Environment[TextArenaScenario]):
    """Plays a game of textarena. The other players are `opponent`, which a subclass may override.

    Each message holds what the game told the model's player since its last turn. When the game is over, its reward for
    that player is the step's, and the outcome says why it ended. The games draw from the global generators of `random`
    and `numpy`; each has its own here, which the scenario seeds, so that games side by side leave each other and the
    rest of the program alone.

    A game ends at limits of its own; `max_turns` is how long one may last here, and what it cuts short has reward 0.

    Attributes:
        rng: What opponents draw from, seeded by the scenario.
    """

    max_turns = 50

    rng: random.Random

    async def opponent(self, player: int, observation: str) -> str:
        """Return another player's move.

        The default is one of the moves in brackets that the game lists last as available, valid or legal, drawn by
        `rng`. Override it for an opponent that plays well, and for a game that lists none, or moves with a blank to
        fill in (`[bet X]`).

        Args:
            player: Whose turn it is.
            observation: What that player saw since its last turn.

        Raises:
            EnvironmentContractError: The game lists no moves.
        """
        listed = [match.end() for match in _LISTED.finditer(observation)]
        moves: list[str] = list(dict.fromkeys(_MOVE.findall(observation, listed[-1]))) if listed else []
        if not moves:
            raise EnvironmentContractError(
                f"{self._scenario.game} lists no moves for player {player}: {observation[-200:]!r}",
                f"override opponent(player, observation) in a subclass of {type(self).__name__}",
            )
        return self.rng.choice(moves)

    async def reset(self, scenario: TextArenaScenario) -> str:
        self._scenario = scenario
        # What is imported may draw, and is imported only once: no game is to notice.
        with OwnRandom(scenario.seed).drawing():
            make = _maker(scenario.game)
        self._random = OwnRandom(scenario.seed)
        self.rng = random.Random(f"{scenario.seed} opponents")
        with self._random.drawing():
            self._game = _begun(make, scenario)
        # Text is taken from the game itself, in pieces: its wrappers tell the whole game anew each time.
        self._inner = self._game
        while hasattr(self._inner, "env"):
            self._inner = self._inner.env
        if await self._play_opponents(done=False):
            raise EnvironmentContractError(
                f"{scenario.game} was over before player {scenario.player} had a turn", "give the model another place"
            )
        return self._seen(scenario.player)

    async def step(self, action: Action) -> StepResult:
        if not await self._play_opponents(done=self._move(action.text)):
            return StepResult(self._seen(self._scenario.player))
        return self._ended()

    def _move(self, text: str) -> bool:
        with self._random.drawing():
            done, _ = self._game.step(action=text)
        return bool(done)

    async def _play_opponents(self, *, done: bool) -> bool:
        """Let the others play until it is the model's turn; return whether the game is over."""
        while not done and (player := self._inner.state.current_player_id) != self._scenario.player:
            done = self._move(await self.opponent(player, self._seen(player)))
        return done

    def _seen(self, player: int) -> str:
        """Return what `player`, whose turn it is, has not seen yet."""
        with self._random.drawing():
            _, told = self._inner.get_observation()
        return self._as_text(player, told)

    def _as_text(self, player: int, told: Sequence[tuple[int, str, Any]]) -> str:
        roles = self._inner.state.role_mapping
        return "\n".join(
            f"[{roles.get(sender, f'Player {sender}')}] {message}"
            for sender, message, kind in told
            # What the player said itself is in the conversation already.
            if not (sender == player and kind.name == "PLAYER_ACTION")
        )

    def _ended(self) -> StepResult:
        player = self._scenario.player
        with self._random.drawing():
            rewards, info = self._game.close()
        if not rewards or player not in rewards:
            raise EnvironmentContractError(
                f"{self._scenario.game} ended without a reward for player {player}: {rewards!r}",
                "play another game, or another version of textarena",
            )
        invalid = {number: bool(about.get("invalid_move")) for number, about in info.items()}
        return StepResult(
            self._as_text(player, self._inner.state.observations.get(player, [])),
            done=True,
            reward=float(rewards[player]),
            metrics={
                "invalid_move": invalid.pop(player, False),
                "opponent_invalid_move": any(invalid.values()),
            },
            outcome={"reason": info.get(player, {}).get("reason"), "turns": info.get(player, {}).get("turn_count")},
        )


def _maker(game: str) -> Any:
    """Return textarena's `make`, with all that the game needs imported."""
    if isinstance(entry := _check_game(game).entry_point, str):
        importlib.import_module(entry.partition(":")[0])
    return optional_module("textarena", extra="textarena").make


def _check_game(game: str) -> Any:
    """Return what textarena knows of a game before it is imported."""
    optional_module("textarena", extra="textarena")  # which registers the games
    games = optional_module("textarena.envs.registration", extra="textarena").ENV_REGISTRY
    if game not in games:
        near = difflib.get_close_matches(game, games, n=3) or ["TicTacToe-v0"]
        raise ConfigurationError(f"textarena has no game {game!r}", f"did you mean {' or '.join(near)}?")
    return games[game]


def _begun(make: Any, scenario: TextArenaScenario) -> Any:
    """Return a new game, reset."""
    try:
        game = make(scenario.game, **scenario.settings)
        game.reset(num_players=scenario.players, seed=scenario.seed)
    except (AssertionError, TypeError) as error:  # how it refuses a number of players, and settings
        raise ConfigurationError(
            f"{scenario.game} refuses players={scenario.players} and settings={scenario.settings!r}: {error}",
            "give the number of players and the settings that the game has",
        ) from error
    return game
