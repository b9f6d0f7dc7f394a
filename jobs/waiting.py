"""Why a job waits: from the word of its scheduler to one of a few causes (pure rules).

Words and their meaning: Slurm's documentation of job reasons (squeue, "JOB REASON CODES", and job_reason_codes.html).
"""

from __future__ import annotations

from typing import Final, Literal, get_args

__all__ = ["CAUSES", "FIRST_LOOK", "Cause", "cause_of"]

Cause = Literal["dependency_or_hold", "own_limit", "own_share", "full", "fragmented", "nodes_held", "reserved",
                "unknown"]  # fmt: skip
"""dependency_or_hold: its user or an operator lets it wait, for another job, a time or a release. own_limit: a limit of
its user, account, QOS or array. own_share: others come first. full: no room. fragmented: enough GPUs are free, not
where it needs them (told apart from `full` once the nodes are known). nodes_held: nodes it needs take no work.
reserved: nodes it needs are kept for others. unknown: nobody told, or by a word that says nothing of the kind."""
CAUSES: Final[tuple[Cause, ...]] = get_args(Cause)
FIRST_LOOK: Final = 300
"""Seconds after the submission within which the first look also speaks of the time before it."""

_WORDS: Final[dict[str, Cause]] = {
    "Dependency": "dependency_or_hold", "DependencyNeverSatisfied": "dependency_or_hold",
    "JobHeldUser": "dependency_or_hold", "JobHeldAdmin": "dependency_or_hold", "BeginTime": "dependency_or_hold",
    "JobHoldMaxRequeue": "dependency_or_hold", "JobLaunchFailure": "dependency_or_hold",
    "ReservationDeleted": "dependency_or_hold", "Cron": "dependency_or_hold", "DeadLine": "dependency_or_hold",
    "JobArrayTaskLimit": "own_limit", "AccountNotAllowed": "own_limit", "QOSNotAllowed": "own_limit",
    "PartitionTimeLimit": "own_limit", "PartitionNodeLimit": "own_limit", "InvalidAccount": "own_limit",
    "InvalidQOS": "own_limit", "QOSTimeLimit": "own_limit", "QOSJobLimit": "own_limit",
    "QOSResourceLimit": "own_limit", "QOSUsageThreshold": "own_limit", "AssociationJobLimit": "own_limit",
    "AssociationResourceLimit": "own_limit", "AssociationTimeLimit": "own_limit", "AccountingPolicy": "own_limit",
    "Priority": "own_share",
    "Resources": "full", "Licenses": "full", "BurstBufferResources": "full",
    "NodeDown": "nodes_held", "FrontEndDown": "nodes_held", "PartitionDown": "nodes_held",
    "PartitionInactive": "nodes_held", "ReqNodeNotAvail": "nodes_held",
    "Reservation": "reserved", "ReservationMaxUsage": "reserved",
}  # fmt: skip
_BEGINNINGS: Final[tuple[tuple[str, Cause], ...]] = (
    ("ReqNodeNotAvail, May be reserved", "reserved"),
    ("ReqNodeNotAvail,_May_be_reserved", "reserved"),
    ("ReqNodeNotAvail", "nodes_held"),
    ("Nodes_required_for_job_are_DOWN", "nodes_held"),
    ("Nodes required for job are DOWN", "nodes_held"),
    ("Resv", "reserved"),
    ("QOS", "own_limit"),
    ("Assoc", "own_limit"),
    ("Max", "own_limit"),
)
"""Families of words: QOSMaxGRESPerUser, QOSGrpCpuLimit, AssocGrpGRES, MaxCpuPerAccount and their likes."""


def cause_of(reason: str) -> Cause:
    """The cause behind a reason as Slurm writes it; `unknown` for what says nothing of the kind."""
    word = reason.strip().strip("()")
    known = _WORDS.get(word)
    if known is not None:
        return known
    return next((cause for beginning, cause in _BEGINNINGS if word.startswith(beginning)), "unknown")
