"""Public doubles for users' own tests: a scripted server, a backend that keeps a diary, hand-made episodes."""

from __future__ import annotations

from artkit.testing.assert_environment import assert_environment
from artkit.testing.chat_server import ChatServer, Script
from artkit.testing.check_reward import check_reward
from artkit.testing.diary import DiaryEntry, read_diary
from artkit.testing.diary_backend import DiaryBackend
from artkit.testing.episodes import choice, episode
from artkit.testing.reply import Reply

__all__ = [
    "ChatServer",
    "DiaryBackend",
    "DiaryEntry",
    "Reply",
    "Script",
    "assert_environment",
    "check_reward",
    "choice",
    "episode",
    "read_diary",
]
