"""The broker that needs no server: kombu's folder of message files, written so that nobody reads half a message."""

from __future__ import annotations

import os
import uuid
from time import monotonic
from typing import Any, Final

from kombu.exceptions import ChannelError
from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.encoding import str_to_bytes
from kombu.utils.json import dumps

NAME: Final = "filesystem"


class Channel(filesystem.Channel):
    """kombu opens the final name first, so that a reader can meet an empty or half message and crash on it."""

    def _put(self, queue: Any, payload: Any, **kwargs: Any) -> None:  # type: ignore[override]  # kombu's two bases differ
        """Write beside and rename: a message is there as a whole or not."""
        del kwargs  # priorities and the like mean nothing to a folder
        name = f"{round(monotonic() * 1000)}_{uuid.uuid4()}.{queue}.msg"
        target = os.path.join(self.data_folder_out, name)
        scratch = f"{target}.part"
        try:
            with open(scratch, "wb") as file:
                file.write(str_to_bytes(dumps(payload)))
            os.rename(scratch, target)
        except OSError as error:
            raise ChannelError(f"a message cannot be written to {self.data_folder_out}: {error}") from error


class Transport(filesystem.Transport):
    """The transport that uses it."""

    Channel = Channel


def install() -> None:
    """Let `filesystem://` mean this transport."""
    TRANSPORT_ALIASES[NAME] = "config.broker:Transport"
