"""Lightning's own trainer with our callback: fits twice, the second time from the last checkpoint of the first.

python lightning_fit.py FOLDER MODE      MODE: plain, async, fails, requeue
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from typing import Any

import hallbook_run
import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins.io import AsyncCheckpointIO
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")


class Line(LightningModule):
    """Fits a line; one step takes at least 5 ms. In mode `fails` the eighth batch is one too many."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.line, self.mode = torch.nn.Linear(4, 1), mode

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        time.sleep(0.005)
        if self.mode == "fails" and number == 7:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        if self.mode == "requeue" and number == 7:
            os.kill(os.getpid(), signal.SIGUSR1)
        x, y = batch
        return torch.nn.functional.mse_loss(self.line(x), y)

    def validation_step(self, batch: Any, number: int) -> None:
        time.sleep(0.02)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main(folder: str, mode: str) -> None:
    seed_everything(1, verbose=False)
    torch.set_num_threads(1)
    x = torch.randn(96, 4)
    data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)

    def fit(epochs: int, path: str | None) -> Trainer:
        saves = ModelCheckpoint(folder, save_last=True, every_n_train_steps=6)
        ours = hallbook_run.HallbookLightning(tokens=lambda batch: len(batch[0]))
        trainer = Trainer(
            max_epochs=epochs, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False,
            enable_model_summary=False, callbacks=[ours, saves], num_sanity_val_steps=0, default_root_dir=folder,
            plugins=[AsyncCheckpointIO()] if mode == "async" else None,
        )  # fmt: skip
        trainer.fit(Line(mode), data, data, ckpt_path=path)
        return trainer

    fit(1, None)
    if mode in ("plain", "async"):
        done = fit(2, f"{folder}/last.ckpt")
        print("steps", done.global_step)
    print("after", signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
