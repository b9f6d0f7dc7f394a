"""What stands in the demo hall and who works there. All names are invented."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CLUSTER", "CPU_CORES", "GPUS", "PODS", "PROJECTS", "TEAMS", "UNMAPPED", "ZONE", "Hall", "Project"]

CLUSTER: Final = "pod-a"
ZONE: Final = "Europe/Berlin"
GPUS: Final = 8
"""GPUs of a node."""
NODE_CORES: Final = 128
CPU_CORES: Final = 192
"""Cores of a node without GPUs."""
RACK: Final = 4
"""GPU nodes of a rack: about 45 kW of 8-GPU nodes."""
LEAF: Final = 8
"""GPU nodes under one leaf switch of each rail."""
PODS: Final = {"small": 4, "pod": 32, "hall": 256}
"""GPU nodes of each size of demo."""


@dataclass(frozen=True, slots=True)
class Hall:
    """The machines: GPU nodes first, then nodes without GPUs, one for each eight."""

    gpu_nodes: int

    @property
    def cpu_nodes(self) -> int:
        """Nodes without GPUs."""
        return max(1, self.gpu_nodes // 8)

    @property
    def gpus(self) -> int:
        """Installed GPUs."""
        return self.gpu_nodes * GPUS

    def name(self, node: int) -> str:
        """Host name; nodes without GPUs count on after the others."""
        return f"gpu{node + 1:03d}" if node < self.gpu_nodes else f"cpu{node - self.gpu_nodes + 1:03d}"

    def gpu_type(self, node: int) -> str:
        """The last quarter of the nodes is a generation newer."""
        return "h200" if node >= self.gpu_nodes - self.gpu_nodes // 4 else "h100"

    def leaf(self, node: int) -> int:
        """Number of the node's leaf switch."""
        return node // LEAF

    def rack(self, node: int) -> int:
        """Number of the node's rack."""
        return node // RACK

    def place_in_rack(self, node: int) -> int:
        """Which of its rack's nodes it is, from below."""
        return node % RACK


@dataclass(frozen=True, slots=True)
class Project:
    """Somebody who is charged. share: of the hall's GPUs, as agreed. weight: of what is submitted.

    accounts: of the scheduler, the first is the usual one. words: what its jobs are called.
    """

    code: str
    title: str
    team: str
    share: float
    weight: float
    words: tuple[str, ...]
    accounts: tuple[str, ...] = ()

    @property
    def all_accounts(self) -> tuple[str, ...]:
        """Its accounts; where none are given, one of its own name."""
        return self.accounts or (self.code,)


ORGANISATION: Final = ("vellmar", "Vellmar Lab")
TEAMS: Final = {
    "foundation": "Foundation models",
    "perception": "Perception",
    "embodied": "Embodied AI",
    "science": "AI for science",
    "platform": "Platform",
}

# Weights follow Zipf with s = 1.2 (traces.md: users and groups) over the order of the table's column `weight`.
PROJECTS: Final = (
    Project("atlas", "Atlas language models", "foundation", 0.35, 11, ("pretrain-probe", "ablate-lr", "ablate-data",
            "scale-law", "ctx-extend", "ckpt-merge"), ("atlas", "atlas-prod")),
    Project("evals", "Shared evaluations", "foundation", 0.12, 1, ("mmlu", "gsm", "code-pass", "long-ctx", "safety")),
    Project("reward", "Preferences and rewards", "foundation", 0.04, 4, ("rm-tune", "dpo", "ppo-step", "judge")),
    Project("vision", "Vision models", "perception", 0.10, 2, ("vit-tune", "detect", "segment", "caption", "augment")),
    Project("speech", "Speech models", "perception", 0.07, 5, ("asr-tune", "tts", "diarise", "align", "vad")),
    Project("robotics", "Robot policies", "embodied", 0.07, 3, ("vla-tune", "rollout", "grasp", "teleop-fit")),
    Project("world", "World models", "embodied", 0.05, 6, ("video-gen", "dynamics", "render", "latent-fit")),
    Project("protein", "Protein structures", "science", 0.06, 7, ("fold", "dock", "msa", "affinity")),
    Project("climate", "Weather and climate", "science", 0.02, 8, ("nowcast", "downscale", "reanalysis")),
    Project("genomics", "Genome models", "science", 0.08, 14, ("variant", "splice", "embed-genome")),
    Project("data", "Data preparation", "platform", 0.02, 9, ("dedup", "tokenise", "filter", "shard", "ocr")),
    Project("infra", "Cluster and storage tests", "platform", 0.02, 10, ("nccl-bench", "fio", "burn", "image-build")),
)  # fmt: skip
UNMAPPED: Final = Project("visitors", "Visitors", "", 0.0, 13, ("notebook", "demo", "thesis", "course"))
"""Its account belongs to no project: nobody has said whose it is."""
USERS: Final = 8
"""Users of a project (traces.md: 8 users a group)."""

_FAMILIES: Final = (
    "aldana", "baptist", "cardoso", "dietz", "ekholm", "farouk", "grimaldi", "haddad", "ishida", "jansen", "kowal",
    "lindgren", "moreau", "nakata", "okoye", "petrov", "quist", "rossi", "sato", "thoma", "ueda", "varga", "weiss",
    "xu", "yilmaz", "zeman", "arnaud", "bello", "cervantes", "dubois", "eriksen", "fontaine", "gupta", "holm",
    "ivanova", "jimenez", "keller", "lopez", "mbeki", "novak", "ortega", "pham", "reyes", "silva", "tanaka", "urban",
    "vogel", "wagner", "yang", "zhou", "bauer", "costa",
)  # fmt: skip
_INITIALS: Final = "amsetkljr"


def users_of(project: Project) -> tuple[str, ...]:
    """Login names of a project's people, the busiest first."""
    first = (*PROJECTS, UNMAPPED).index(project) * USERS
    return tuple(_login(first + place) for place in range(USERS))


def _login(number: int) -> str:
    family = _FAMILIES[number % len(_FAMILIES)]
    return _INITIALS[(number * 5 + number // len(_FAMILIES)) % len(_INITIALS)] + family
