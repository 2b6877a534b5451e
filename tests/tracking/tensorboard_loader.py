"""Prints the curve `val/reward` of a directory as TensorBoard's own loader has it: a step and a value a line."""

from __future__ import annotations

import sys
import time

from tensorboard import context
from tensorboard.data import server_ingester
from tensorboard.util import grpc_util

ingester = server_ingester.SubprocessServerDataIngester(
    server_binary=server_ingester.get_server_binary(),
    logdir=sys.argv[1],
    reload_interval=1,
    channel_creds_type=grpc_util.ChannelCredsType.LOCAL,
)
ingester.start()
runs: dict[str, dict[str, list]] = {}
while not runs:
    runs = ingester.data_provider.read_scalars(
        context.RequestContext(), experiment_id="", plugin_name="scalars", downsample=1000
    )
    time.sleep(0.05)
for point in runs["."]["val/reward"]:
    sys.stdout.write(f"{point.step} {point.value}\n")
