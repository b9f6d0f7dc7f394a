"""A real, small training: a transformer of bytes that learns the text of a licence, on one core.

Pairs of blocks of steps, one that reports and one that does not, so that both meet the same machine; as many as told
and then on until the file STOP is there. Prints one JSON object: of each pair (reporting, not) the milliseconds passed
and those of the processor, seconds inside our calls, seconds of processor that our threads used, the loss after each
pair, the ids of all reports, noted as they are handed over and before anything can lose them.

    python torch_loop.py TEXT STOP PAIRS STEPS
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import hallbook_run
import torch
from torch import nn

CONTEXT, BATCH, WIDTH = 32, 16, 64


class Bytes(nn.Module):
    """Predicts the next byte."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(WIDTH, 256)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        known = self.embed(x) + self.place.weight
        return self.head(self.body(known, mask=self.mask, is_causal=True))


def batches(text: torch.Tensor) -> Any:
    while True:
        at = torch.randint(len(text) - CONTEXT - 1, (BATCH,))
        yield torch.stack([text[i : i + CONTEXT + 1] for i in at])


def main(text: str, stop: str, pairs: int, steps: int) -> None:
    torch.set_num_threads(1)
    hallbook_run.OPEN_SECONDS = 1.0
    torch.manual_seed(1)
    model, raw = Bytes(), Path(text).read_bytes()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    handed, put = [], hallbook_run._Courier.put
    hallbook_run._Courier.put = lambda self, event, wake=True: (handed.append(event["id"]), put(self, event, wake))
    run = hallbook_run.start(run="bytes", every_seconds=0.5)
    run.gang_ready()
    source, spent, step = batches(torch.frombuffer(bytearray(raw), dtype=torch.uint8).long()), 0.0, 0
    kept: list[torch.Tensor] = []
    losses: list[float] = []

    def block(reports: bool) -> tuple[float, float]:
        """Milliseconds and processor milliseconds of a block of steps. What reports is timed call by call."""
        nonlocal spent, step
        began, used = time.perf_counter(), time.thread_time()
        for batch in run.data(next(source) for _ in range(steps)) if reports else (next(source) for _ in range(steps)):
            optimiser.zero_grad(set_to_none=True)
            logits = model(batch[:, :-1])
            loss = nn.functional.cross_entropy(logits.reshape(-1, 256), batch[:, 1:].reshape(-1))
            loss.backward()
            optimiser.step()
            step += 1
            if reports:
                call = time.perf_counter()
                run.step(step, tokens=BATCH * CONTEXT, loss=loss)
                spent += time.perf_counter() - call
        kept[:] = [loss.detach()]
        return (time.perf_counter() - began) * 1000, (time.thread_time() - used) * 1000

    block(False)
    main_before, all_before, wall = time.thread_time(), time.process_time(), time.perf_counter()
    run.begin(step)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        while len(times) < pairs or not Path(stop).exists():
            turn = len(times) % 2 == 0  # the one that reports comes first in every other pair
            first, second = block(turn), block(not turn)
            times.append([first, second] if turn else [second, first])
            losses.append(kept[0].item())
            if len(times) % 50 == 25:
                with run.checkpoint(step, path_class="local disk") as save:
                    torch.save(model.state_dict(), f"{folder}/model.pt")
                    save.bytes = Path(f"{folder}/model.pt").stat().st_size
    ours = (time.process_time() - all_before) - (time.thread_time() - main_before)
    wall = time.perf_counter() - wall
    run.finish()
    left = len(list(Path(os.environ["HALLBOOK_SPOOL"]).glob("*/*.ndjson")))
    figures = {"pairs": times, "calls_s": spent, "threads_s": ours, "wall_s": wall, "losses": losses, "ids": handed}
    print(json.dumps({**figures, "steps": step, "left": left}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
