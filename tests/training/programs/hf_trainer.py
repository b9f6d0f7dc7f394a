"""The Trainer of transformers with our callback, on a tiny model with random weights; twice, from a checkpoint.

python hf_trainer.py FOLDER
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import hallbook_run
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

warnings.simplefilter("ignore")


class Rows(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Rows of 16 tokens, each 1 ms late."""

    def __len__(self) -> int:
        return 48

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        time.sleep(0.001)
        row = torch.arange(number, number + 16) % 64
        return {"input_ids": row, "labels": row}


def main(folder: str) -> None:
    torch.set_num_threads(1)

    def train(epochs: int, resume: Any) -> None:
        arguments = TrainingArguments(
            output_dir=folder, num_train_epochs=epochs, per_device_train_batch_size=4, save_steps=6, logging_steps=3,
            report_to=[], disable_tqdm=True, use_cpu=True, include_num_input_tokens_seen="all", seed=1,
        )  # fmt: skip
        torch.manual_seed(1)
        model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))
        trainer = Trainer(model=model, args=arguments, train_dataset=Rows(), callbacks=[hallbook_run.HallbookTrainer()])
        trainer.train(resume_from_checkpoint=resume)
        print("steps", trainer.state.global_step)

    train(1, None)
    train(2, True)


if __name__ == "__main__":
    main(sys.argv[1])
