"""artkit: building blocks for training LLM agents by reinforcement learning on OpenPipe ART.

Every public name imports from here and is loaded when it is first used, so that `import artkit` is cheap: it loads
neither `art` nor torch. Only `artkit.testing` and `artkit.backends.torch` are imported by their own names.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from artkit.exports import EXPORTS as _EXPORTS

if TYPE_CHECKING:
    from artkit.bridge import make_trainable_model as make_trainable_model
    from artkit.checkpoints import CheckpointPolicy as CheckpointPolicy
    from artkit.checkpoints import Decision as Decision
    from artkit.checkpoints import KeepAll as KeepAll
    from artkit.checkpoints import KeepBest as KeepBest
    from artkit.checkpoints import KeepEvery as KeepEvery
    from artkit.checkpoints import KeepLatest as KeepLatest
    from artkit.checkpoints import MetricHistory as MetricHistory
    from artkit.environments import Action as Action
    from artkit.environments import Divergence as Divergence
    from artkit.environments import Environment as Environment
    from artkit.environments import EnvironmentFinding as EnvironmentFinding
    from artkit.environments import EnvironmentReport as EnvironmentReport
    from artkit.environments import LikelyCause as LikelyCause
    from artkit.environments import ReplayReport as ReplayReport
    from artkit.environments import SingleTurnEnvironment as SingleTurnEnvironment
    from artkit.environments import SkippedEpisode as SkippedEpisode
    from artkit.environments import StepResult as StepResult
    from artkit.environments import ToolCall as ToolCall
    from artkit.environments import ToolEnvironment as ToolEnvironment
    from artkit.environments import ToolResult as ToolResult
    from artkit.environments import check_environment as check_environment
    from artkit.environments import play as play
    from artkit.environments import replay as replay
    from artkit.environments import tool as tool
    from artkit.episodes import Episode as Episode
    from artkit.episodes import FailureKind as FailureKind
    from artkit.episodes import FailurePolicy as FailurePolicy
    from artkit.episodes import FailureRecord as FailureRecord
    from artkit.episodes import FailureRule as FailureRule
    from artkit.episodes import Recorder as Recorder
    from artkit.episodes import StopReason as StopReason
    from artkit.episodes import iter_episodes as iter_episodes
    from artkit.episodes import load_groups as load_groups
    from artkit.episodes import read_groups as read_groups
    from artkit.episodes import record as record
    from artkit.episodes import write_groups as write_groups
    from artkit.errors import AllRolloutsFailedError as AllRolloutsFailedError
    from artkit.errors import ArtkitError as ArtkitError
    from artkit.errors import BackendError as BackendError
    from artkit.errors import CheckpointError as CheckpointError
    from artkit.errors import ConfigurationError as ConfigurationError
    from artkit.errors import EmptyReplyError as EmptyReplyError
    from artkit.errors import EnvironmentContractError as EnvironmentContractError
    from artkit.errors import JudgeError as JudgeError
    from artkit.errors import NothingToCompareError as NothingToCompareError
    from artkit.errors import OutageError as OutageError
    from artkit.errors import ResumeError as ResumeError
    from artkit.errors import RewardError as RewardError
    from artkit.errors import ToolError as ToolError
    from artkit.rewards import DropFailures as DropFailures
    from artkit.rewards import DropZeroVariance as DropZeroVariance
    from artkit.rewards import EndpointJudge as EndpointJudge
    from artkit.rewards import EnvironmentReward as EnvironmentReward
    from artkit.rewards import FilterResult as FilterResult
    from artkit.rewards import GroupFilter as GroupFilter
    from artkit.rewards import Judge as Judge
    from artkit.rewards import JudgeCounts as JudgeCounts
    from artkit.rewards import JudgeReply as JudgeReply
    from artkit.rewards import LiteLLMJudge as LiteLLMJudge
    from artkit.rewards import MinMembers as MinMembers
    from artkit.rewards import ProgrammaticReward as ProgrammaticReward
    from artkit.rewards import RewardAdapter as RewardAdapter
    from artkit.rewards import RewardDiagnosis as RewardDiagnosis
    from artkit.rewards import RewardFigures as RewardFigures
    from artkit.rewards import RulerReward as RulerReward
    from artkit.rewards import Score as Score
    from artkit.rewards import TextGrader as TextGrader
    from artkit.rewards import WeightedReward as WeightedReward
    from artkit.rewards import answer_text as answer_text
    from artkit.rewards import boxed_math as boxed_math
    from artkit.rewards import choice_letter as choice_letter
    from artkit.rewards import diagnose_reward as diagnose_reward
    from artkit.rewards import exact_match as exact_match
    from artkit.rewards import json_schema as json_schema
    from artkit.rewards import last_boxed as last_boxed
    from artkit.rewards import last_number as last_number
    from artkit.rewards import normalised as normalised
    from artkit.rewards import normalised_match as normalised_match
    from artkit.rewards import number_match as number_match
    from artkit.rewards import regex_match as regex_match
    from artkit.rewards import reply_text as reply_text
    from artkit.rewards import reward_figures as reward_figures
    from artkit.rewards import scenario_label as scenario_label
    from artkit.rewards import token_f1 as token_f1
    from artkit.rollouts import GatherCounts as GatherCounts
    from artkit.rollouts import GatheredGroups as GatheredGroups
    from artkit.rollouts import Limits as Limits
    from artkit.rollouts import MemberFinished as MemberFinished
    from artkit.rollouts import RescoredGroups as RescoredGroups
    from artkit.rollouts import Rollout as Rollout
    from artkit.rollouts import Sampling as Sampling
    from artkit.rollouts import TaskRollout as TaskRollout
    from artkit.rollouts import capture_partial as capture_partial
    from artkit.rollouts import gather_groups as gather_groups
    from artkit.rollouts import rescore as rescore
    from artkit.scenarios import Cursor as Cursor
    from artkit.scenarios import DatasetStream as DatasetStream
    from artkit.scenarios import JsonlStream as JsonlStream
    from artkit.scenarios import LoadedScenarios as LoadedScenarios
    from artkit.scenarios import PromptScenario as PromptScenario
    from artkit.scenarios import Scenario as Scenario
    from artkit.scenarios import ScenarioBatch as ScenarioBatch
    from artkit.scenarios import ScenarioMixture as ScenarioMixture
    from artkit.scenarios import ScenarioOrder as ScenarioOrder
    from artkit.scenarios import ScenarioStream as ScenarioStream
    from artkit.scenarios import Split as Split
    from artkit.scenarios import find_leaks as find_leaks
    from artkit.scenarios import from_dataset as from_dataset
    from artkit.scenarios import load_jsonl as load_jsonl
    from artkit.scenarios import load_parquet as load_parquet
    from artkit.scenarios import split_scenarios as split_scenarios
    from artkit.scenarios import stream_dataset as stream_dataset
    from artkit.scenarios import stream_jsonl as stream_jsonl
    from artkit.tracking import CheckpointsPruned as CheckpointsPruned
    from artkit.tracking import ConsoleTracker as ConsoleTracker
    from artkit.tracking import JsonlTracker as JsonlTracker
    from artkit.tracking import RolloutFinished as RolloutFinished
    from artkit.tracking import RunFinished as RunFinished
    from artkit.tracking import RunStarted as RunStarted
    from artkit.tracking import StepFinished as StepFinished
    from artkit.tracking import TensorBoardTracker as TensorBoardTracker
    from artkit.tracking import Tracker as Tracker
    from artkit.tracking import TrackingEvent as TrackingEvent
    from artkit.tracking import ValidationFinished as ValidationFinished
    from artkit.tracking import Warned as Warned
    from artkit.training import Checkpoint as Checkpoint
    from artkit.training import MaxCost as MaxCost
    from artkit.training import MaxMinutes as MaxMinutes
    from artkit.training import NoImprovement as NoImprovement
    from artkit.training import NothingToLearn as NothingToLearn
    from artkit.training import Plan as Plan
    from artkit.training import RewardCollapse as RewardCollapse
    from artkit.training import RunReport as RunReport
    from artkit.training import StopCondition as StopCondition
    from artkit.training import TargetReached as TargetReached
    from artkit.training import Trainer as Trainer
    from artkit.training import TrainerSettings as TrainerSettings
    from artkit.training import Validation as Validation
    from artkit.training import ValidationResult as ValidationResult
    from artkit.training import load_checkpoint as load_checkpoint
    from artkit.training import prune_checkpoints as prune_checkpoints
    from artkit.transport import SamplingClient as SamplingClient
    from artkit.transport import SamplingRequest as SamplingRequest
    from artkit.validation import AtEnd as AtEnd
    from artkit.validation import AtStart as AtStart
    from artkit.validation import AtSteps as AtSteps
    from artkit.validation import Comparison as Comparison
    from artkit.validation import Estimate as Estimate
    from artkit.validation import Every as Every
    from artkit.validation import EveryEpoch as EveryEpoch
    from artkit.validation import EveryMinutes as EveryMinutes
    from artkit.validation import Never as Never
    from artkit.validation import Progress as Progress
    from artkit.validation import ValidationSchedule as ValidationSchedule
    from artkit.validation import compare as compare
    from artkit.validation import estimate as estimate
    from artkit.validation import mean_pass_at_k as mean_pass_at_k
    from artkit.validation import pass_at_k as pass_at_k

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
