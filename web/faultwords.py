"""Faults in words: how bad they are, where they are, what is done about them."""

from __future__ import annotations

from typing import Any, Final

from web import figures

__all__ = ["ACTIONS", "CLOSED_AS", "REACH", "REPLACE", "SEVERITIES", "place_of", "state_of"]

SEVERITIES: Final = {
    "fatal": ("fatal", "s-fail"), "degraded": ("degraded", "s-node"), "warn": ("warning", "s-limit"),
    "app": ("program's own", "s-stop"), "info": ("for information", "s-wait"),
}  # fmt: skip
"""Severity -> its word and the class of its shape and colour."""
REACH: Final = {"gpu": "one GPU", "port": "one port", "node": "one node", "rack": "its rack",
                "cdu": "the racks of its CDU", "group": "all nodes behind it", "hall": "the whole hall"}  # fmt: skip
CLOSED_AS: Final = {
    "repaired": "repaired in place", "replaced": "a part was replaced", "cleared": "went away by itself",
    "false_alarm": "false alarm", "duplicate": "the same as another fault",
}  # fmt: skip
REPLACE: Final = {"no": "no", "on_repeat": "if it comes back", "likely": "likely"}
ACTIONS: Final = {
    "burn_in": "burn the node in before it takes work again", "call_facility": "call the facility",
    "call_storage": "call whoever runs the storage", "check_app": "look for the fault in the program",
    "check_exporter": "check whether the exporter runs", "check_node": "check whether the node is up",
    "diagnose": "run the vendor's diagnostics", "drain": "drain the node",
    "drain_hottest": "drain the hottest nodes first", "follow_other": "follow the fault that came with it",
    "inspect": "inspect the hardware", "inspect_cold_plate": "inspect the cold plate", "none": "nothing",
    "one_incident": "treat it as one incident and drain nothing for it", "plan_service": "plan a service",
    "power_off_by_person": "let a person decide on powering off", "quarantine": "keep the node from all work",
    "reboot_node": "reboot the node", "replace_dimm": "replace the memory module", "replace_drive": "replace the drive",
    "replace_fan": "replace the fan", "replace_optic": "replace the optic", "replace_pump": "replace the pump",
    "replace_switch": "replace the switch", "reseat": "reseat the part",
    "reseat_optic_cable_nic": "reseat and clean optic and cable, then swap optic, cable, network card",
    "reset_at_idle": "reset the GPU when it is idle next", "reset_gpu": "reset the GPU",
    "reset_gpus": "reset all GPUs of the node", "restart_app": "restart the program",
    "return": "return the part", "return_node": "return the node to its vendor", "support": "ask the vendor's support",
    "swap_hot": "swap the part while the node runs", "ticket": "open a ticket",
    "validate": "validate before work returns", "watch": "watch it",
}  # fmt: skip
"""What the catalogue says to do -> in words."""


def place_of(row: Any) -> str:
    """Where a fault is: `gpu001, GPU 5`; of a wide one how many saw it."""
    if row.wide:
        many = [(row.nodes, "node"), (row.units, "unit")]
        return " and ".join(f"{figures.thousands(len(names))} {word}{'' if len(names) == 1 else 's'}"
                            for names, word in many if names)  # fmt: skip
    part = f"GPU {row.gpu}" if row.gpu is not None else row.part
    return ", ".join(word for word in (row.node or row.unit or "place unknown", part) if word)


def state_of(row: Any) -> tuple[str, str]:
    """Open, looked after or closed: its word and the class of its shape and colour."""
    if row.closed is not None:
        return "closed", "s-done"
    return ("looked after", "s-run") if row.acknowledged is not None else ("open", "s-fail")
