"""CloudEvents that the tests send."""

from __future__ import annotations

import json
from typing import Any

NDJSON = "application/x-ndjson"
BATCH = "application/cloudevents-batch+json"
STRUCTURED = "application/cloudevents+json"


def cloud(id_: str, **changes: Any) -> dict[str, Any]:
    """A CloudEvent about a finished job of one hour on 8 GPUs; `data` changes single fields of its data."""
    data = {
        "cluster": "pod-a", "job_id": "412", "state": "COMPLETED", "submit": 1764496800, "start": 1764496860,
        "end": 1764500460, "account": "nlp", "partition": "gpu", "gpus": 8, "cpus": 96, "nodes": 1,
    }  # fmt: skip
    if "data" not in changes or changes["data"] is not None:
        data |= changes.pop("data", {})
    made = {
        "specversion": "1.0", "id": id_, "source": "slurm/pod-a", "type": "job.reported",
        "time": "2025-11-30T11:01:00Z", "data": data,
    }  # fmt: skip
    return {key: value for key, value in {**made, **changes}.items() if value is not None}


def lines(*events: Any) -> bytes:
    """Events as NDJSON; a text stands for itself."""
    return "\n".join(event if isinstance(event, str) else json.dumps(event) for event in events).encode()
