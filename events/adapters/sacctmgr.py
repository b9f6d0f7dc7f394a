"""What Slurm's accounting says of accounts and users, in three forms, to associations.

| form | made by | tells |
|---|---|---|
| dump | `sacctmgr dump CLUSTER file=F` | all but partitions; QOS as changes (`+high`) to what is inherited |
| JSON | slurmrestd `/slurmdb/.../associations`, `sacctmgr show assoc --json` | all but descriptions |
| text | `sacctmgr show assoc -P` | the columns that were asked for; needs Account, and Cluster or `cluster` |

The three say the same of the same accounting; what a form does not tell is left out. Shares of `parent` (in numbers
2^31-1) are none of its own. A user's association carries no parent: it hangs under its account.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from events.adapters import Draft, Refusal
from events.types.accounts import AssociationReported
from events.validate import refusal

__all__ = ["NoAssociations", "accounts_of", "read_associations"]

_OF_PARENT: Final = 2**31 - 1
_LIMITS: Final = (
    "GrpJobs", "GrpJobsAccrue", "GrpSubmitJobs", "GrpSubmit", "GrpTRES", "GrpTRESMins", "GrpTRESRunMins", "GrpWall",
    "GrpCPUs", "GrpCPUMins", "GrpCPURunMins", "GrpMem", "GrpNodes", "MaxJobs", "MaxJobsAccrue", "MaxSubmitJobs",
    "MaxSubmit", "MaxTRES", "MaxTRESPerJob", "MaxTRESPerNode", "MaxTRESMins", "MaxTRESMinsPerJob", "MaxTRESRunMins",
    "MaxWall", "MaxWallDurationPerJob", "MaxCPUs", "MaxCPUMins", "MaxNodes", "MinPrioThresh", "Priority",
)  # fmt: skip
_ALIASES: Final = {"GrpSubmit": "GrpSubmitJobs", "MaxSubmit": "MaxSubmitJobs", "MaxTRES": "MaxTRESPerJob",
                   "MaxTRESMins": "MaxTRESMinsPerJob", "MaxWall": "MaxWallDurationPerJob"}  # fmt: skip
_PLAIN: Final = {name.lower(): _ALIASES.get(name, name) for name in _LIMITS}
_IN_JSON: Final = {
    "max/jobs/per/count": "GrpJobs",
    "max/jobs/per/accruing": "GrpJobsAccrue",
    "max/jobs/per/submitted": "GrpSubmitJobs",
    "max/jobs/per/wall_clock": "MaxWallDurationPerJob",
    "max/jobs/active": "MaxJobs",
    "max/jobs/accruing": "MaxJobsAccrue",
    "max/jobs/total": "MaxSubmitJobs",
    "max/tres/total": "GrpTRES",
    "max/tres/group/minutes": "GrpTRESMins",
    "max/tres/group/active": "GrpTRESRunMins",
    "max/tres/minutes/total": "MaxTRESRunMins",
    "max/tres/minutes/per/job": "MaxTRESMinsPerJob",
    "max/tres/per/job": "MaxTRESPerJob",
    "max/tres/per/node": "MaxTRESPerNode",
    "max/per/account/wall_clock": "GrpWall",
    "min/priority_threshold": "MinPrioThresh",
    "priority": "Priority",
}
_LINE: Final = re.compile(r"^(Cluster|Parent|Account|User)\s+-\s+'?(.*?)'?(?=:\w+=|$)(?::(.*))?$", re.DOTALL)
_OPTION: Final = re.compile(r"(\w+)=(?:'(.*?)'(?=:\w+=|$)|([^:]*))", re.DOTALL)
_SEVERAL: Final = re.compile(r"[,\s]+")


class NoAssociations(ValueError):
    """The text as a whole is in none of the three forms; one line for a person."""


def read_associations(text: str, cluster: str, occurred_us: int) -> list[Draft | Refusal]:
    """The associations of a text in any of the forms. Raises NoAssociations.

    cluster: only of this one; it also names the one of a text that names none. occurred_us: when the file was true.
    """
    start = text.lstrip("\ufeff \r\n\t")
    if start[:1] == "{":
        found: Iterator[tuple[int, Mapping[str, Any]]] = _of_json(start)
    elif re.search(r"^Cluster\s+-\s", text, re.MULTILINE):
        found = _of_dump(text)
    else:
        found = _of_text(text, cluster)
    return [_draft(index, said, occurred_us) for index, said in found if not cluster or said.get("cluster") == cluster]


def _draft(index: int, said: Mapping[str, Any], occurred_us: int) -> Draft | Refusal:
    try:
        data = msgspec.convert({key: value for key, value in said.items() if value not in (None, "")},
                               AssociationReported)  # fmt: skip
    except msgspec.ValidationError as error:
        return refusal(index, "", "invalid", str(error), msgspec.json.encode(said))
    key = "/".join(part or "" for part in (data.cluster, data.account, data.user, data.partition))
    return Draft("association.reported", data, key, occurred_us, index)


def _shares(value: object) -> dict[str, Any]:
    text = str(value if value is not None else "").strip()
    if text.lower() == "parent" or text == str(_OF_PARENT):
        return {"shares_of_parent": True}
    return {"shares": int(text) if text.isascii() and text.isdecimal() else text}


def _words(value: str) -> tuple[str, ...]:
    return tuple(sorted(word for word in _SEVERAL.split(value) if word))


# ---- sacctmgr dump


def _of_dump(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Accounts hang under the last `Parent` line; a user's QOS and an account's start from what is inherited."""
    cluster, parent = "", "root"
    qos: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        found = None if line.startswith("#") else _LINE.match(line.strip())
        if found is None:
            continue
        kind, name = found[1], found[2]
        told = {one[1].lower(): one[2] if one[2] is not None else one[3] for one in _OPTION.finditer(found[3] or "")}
        if kind == "Parent":
            parent = name
            continue
        if kind == "Cluster":
            cluster, parent = name, "root"
            qos = {}
        account = {"Cluster": "root", "Account": name}.get(kind, parent)
        may = _inherited(qos.get("" if kind == "Cluster" else parent, ()), told.get("qos", ""))
        if kind != "User":
            qos[account] = may
        yield number, {**_dumped(kind, name, told, account), "cluster": cluster, "account": account, "qos": may,
                       **({"parent": parent} if kind == "Account" else {})}  # fmt: skip


def _dumped(kind: str, name: str, told: Mapping[str, str], account: str) -> dict[str, Any]:
    said: dict[str, Any] = {
        **_shares(told.get("fairshare")),
        "limits": _limits(told),
        "default_qos": told.get("defaultqos"),
        "description": told.get("description"),
        "organisation": told.get("organization"),
    }
    if kind == "User":
        said |= {"user": name, "partition": told.get("partition")}
        if "defaultaccount" in told:
            said["default"] = told["defaultaccount"] == account
    return said


def _inherited(above: tuple[str, ...], told: str) -> tuple[str, ...]:
    """A list replaces what is inherited; words with + and - change it."""
    words = _words(told)
    if not words:
        return above
    if not any(word[0] in "+-" for word in words):
        return words
    added = {word[1:] for word in words if word[0] == "+"}
    gone = {word[1:] for word in words if word[0] == "-"}
    return tuple(sorted((set(above) | added) - gone))


def _limits(told: Mapping[str, str]) -> tuple[str, ...]:
    """Those of the limits that are set, by the names of `sacctmgr`."""
    return tuple(sorted(f"{_PLAIN[name]}={value}" for name, value in told.items() if name in _PLAIN and value))


# ---- JSON of slurmrestd and of newer sacctmgr


def _of_json(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NoAssociations(f"it is not JSON: {error}") from None
    rows = found.get("associations") if isinstance(found, dict) else None
    if not isinstance(rows, list):
        raise NoAssociations("the JSON has no list `associations`: save /slurmdb/vX/associations")
    return ((index, _from_json(row)) for index, row in enumerate(rows) if isinstance(row, dict))


def _from_json(row: Mapping[str, Any]) -> dict[str, Any]:
    user = row.get("user") or None
    default = row.get("is_default")
    limits = {name: _number(_at(row, path)) for path, name in _IN_JSON.items()}
    return {
        "cluster": row.get("cluster"),
        "account": row.get("account"),
        "user": user,
        "partition": row.get("partition"),
        "parent": None if user else row.get("parent_account"),
        **_shares(_number(row.get("shares_raw"))),
        "default": bool(default) if user and default is not None else None,
        "qos": tuple(sorted(str(name) for name in row.get("qos") or ())),
        "default_qos": _at(row, "default/qos"),
        "limits": tuple(sorted(f"{name}={value}" for name, value in limits.items() if value)),
    }


def _at(row: Any, path: str) -> Any:
    for part in path.split("/"):
        row = row.get(part) if isinstance(row, dict) else None
    return row


def _number(value: Any) -> str:
    """A number, `{set, infinite, number}` of newer versions, or a list of TRES, as sacctmgr writes it."""
    if isinstance(value, list):
        return ",".join(sorted(_tres(one) for one in value if isinstance(one, dict)))
    if isinstance(value, dict):
        return str(value.get("number")) if value.get("set") and not value.get("infinite") else ""
    return "" if value is None or isinstance(value, bool) else str(value)


def _tres(one: Mapping[str, Any]) -> str:
    kind = f"{one.get('type')}/{one['name']}" if one.get("name") else str(one.get("type"))
    return f"{kind}={_number(one.get('count'))}"


# ---- sacctmgr show assoc -P


def _of_text(text: str, cluster: str) -> Iterator[tuple[int, dict[str, Any]]]:
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    heads = [head.strip().lower().replace(" ", "") for head in lines[0][1].split("|")] if lines else []
    if "account" not in heads or not ("cluster" in heads or cluster):
        raise NoAssociations(
            "it is no dump of sacctmgr, no JSON of associations, and no `sacctmgr show assoc -P` with its header "
            "(columns Account, and Cluster unless --cluster says it)"
        )
    return (
        (number, _from_text(dict(zip(heads, line.split("|"), strict=False)), cluster)) for number, line in lines[1:]
    )


def _from_text(cells: Mapping[str, str], cluster: str) -> dict[str, Any]:
    told = {head: cell.strip() for head, cell in cells.items()}
    user = told.get("user") or None
    return {
        "cluster": told.get("cluster") or cluster,
        "account": told.get("account"),
        "user": user,
        "partition": told.get("partition"),
        "parent": None if user else told.get("parentname"),
        **_shares(told.get("share", told.get("fairshare"))),
        "qos": _words(told.get("qos", "")),
        "default_qos": told.get("defqos", told.get("defaultqos")),
        "limits": _limits(told),
        "description": told.get("descr"),
        "organisation": told.get("org"),
    }


def accounts_of(found: Iterable[Draft | Refusal]) -> dict[tuple[str, str], AssociationReported]:
    """(cluster, account) -> the account itself, without its users."""
    kept = (one.data for one in found if isinstance(one, Draft) and isinstance(one.data, AssociationReported))
    return {(data.cluster, data.account): data for data in kept if data.user is None and data.partition is None}
