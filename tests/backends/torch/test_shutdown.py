"""A program that ends without closing its backend."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from artkit.backends.torch import TorchBackend

SCRIPT = """
import asyncio, sys, art
from artkit.backends.torch import TorchBackend

async def main():
    names = {"run_name": "run"} if "run_name" in art.TrainableModel.model_fields else {}
    model = art.TrainableModel(name="agent", project="tests", base_model="artkit/micro", report_metrics=[], **names)
    backend = TorchBackend(sys.argv[1])
    await model.register(backend)
    client = backend.sampling_client(model)
    from artkit.transport import SamplingRequest
    request = SamplingRequest(model="agent", messages=[{"role": "user", "content": "x"}])
    asyncio.ensure_future(client.complete(request))
    await asyncio.sleep(0)
    raise SystemExit(3)

asyncio.run(main())
"""


@pytest.mark.timeout(180)  # a fresh interpreter imports ART and torch, which takes long on a busy machine
def test_an_exit_without_close_is_an_ordinary_exit(tmp_path: Path) -> None:
    """Not an abort of the process while its threads compute."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stderr) == (3, "")


async def test_a_backend_that_is_dropped_takes_its_threads_along(tmp_path: Path) -> None:
    """A notebook that makes one after the other does not fill up with them."""
    before = threading.active_count()
    backend = TorchBackend(tmp_path)
    assert threading.active_count() == before + 1

    del backend
    gc.collect()

    assert threading.active_count() == before


@pytest.mark.parametrize("times", [1, 2])
async def test_closing_leaves_no_threads(tmp_path: Path, times: int) -> None:
    """However often."""
    before = {thread for thread in threading.enumerate() if thread.name.startswith("artkit")}
    backend = TorchBackend(tmp_path)
    for _ in range(times):
        await backend.close()

    assert {thread for thread in threading.enumerate() if thread.name.startswith("artkit")} == before
