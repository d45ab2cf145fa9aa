"""The section `runners`: settings for the files that `kfm runners write` creates."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kfm.config.setting_values import Text
from kfm.model.records import Record
from kfm.parsing.documents import Document
from kfm.parsing.lazy_regex import pattern

_LABEL = pattern(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
_IMAGE = pattern(r"[a-z0-9][a-z0-9._:/-]{0,250}(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})\Z")
_PATH = pattern(r"(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)+\Z")
_USER = pattern(r"[a-z_][a-z0-9_-]{0,31}\Z")


class RunnersConfig(Record, frozen=True):
    """How runners other than `kfm up` run this installation."""

    image: Annotated[
        str, Meta(max_length=400, description="pinned image of a container with KFM and this installation")
    ] = ""
    kubectl_image: Annotated[
        str, Meta(max_length=400, description="pinned image of a container with kubectl; only Tekton needs it")
    ] = ""
    folder: Annotated[Text, Meta(description="folder of the installation, in the container or on the machine")] = "/kfm"
    program: Annotated[Text, Meta(description="path of kfm on a machine with systemd or cron")] = "/usr/local/bin/kfm"
    user: Annotated[Text, Meta(description="user that runs kfm on a machine with systemd or cron")] = "kfm"
    environment_file: Annotated[
        Text, Meta(description="file with the variables of env:NAME, on a machine with systemd or cron")
    ] = "/etc/kfm/environment"
    namespace: Annotated[Text, Meta(description="the Kubernetes namespace")] = "kfm"
    service_account: Annotated[Text, Meta(description="the Kubernetes service account, for workload identity")] = "kfm"
    claim: Annotated[Text, Meta(description="the persistent volume claim that holds the state")] = "kfm"
    secret: Annotated[Text, Meta(description="the Kubernetes secret for env:NAME")] = "kfm"  # noqa: S105 its name
    every: Annotated[Text, Meta(description="cron expression in UTC for datasets without a schedule of their own")] = (
        "17 * * * *"
    )


def check_runners(document: Document, said: RunnersConfig) -> None:
    for key in ("image", "kubectl_image"):
        if (text := getattr(said, key)) and not _IMAGE.match(text):
            hint = "write NAME:TAG, or better NAME@sha256:DIGEST, so that every run uses the same image"
            document.refuse(("runners", key), "is not an image with a tag or a digest", hint)
    for key in ("folder", "program", "environment_file"):
        if not _PATH.match(getattr(said, key)):
            hint = "letters, digits, dots and dashes between the slashes, such as /srv/kfm"
            document.refuse(("runners", key), "is not a plain absolute path", hint)
    for key in ("namespace", "service_account", "claim", "secret"):
        if not _LABEL.match(getattr(said, key)):
            document.refuse(("runners", key), "is not a valid Kubernetes name", "use a-z, 0-9 and -")
    if not _USER.match(said.user):
        document.refuse(("runners", "user"), "is not a user name", "use a-z, 0-9, _ and -")
