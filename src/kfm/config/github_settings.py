"""The section `github`, and the repository that `publish` names."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kfm.config.setting_values import Text
from kfm.model.records import Record
from kfm.parsing.documents import Document


class GitHubConfig(Record, frozen=True):
    """How KFM reaches GitHub: for `publish: github:OWNER/REPOSITORY`, and for pull requests."""

    token: Annotated[Text, Meta(description="env:NAME or file:PATH; it needs write access to contents")] = (
        "env:GITHUB_TOKEN"  # noqa: S105 the name of one
    )
    api: Annotated[Text, Meta(description="the API of GitHub, or of your own server")] = "https://api.github.com"
    uploads: Annotated[Text, Meta(description="where files are uploaded")] = "https://uploads.github.com"
    repository: Annotated[
        str,
        Meta(max_length=200, description="OWNER/NAME of the repository for pull requests; empty: the one in `publish`"),
    ] = ""


def check_github(document: Document, publish: str, github: GitHubConfig) -> None:
    scheme, _, repository = publish.partition(":")
    if scheme != "github" and github == GitHubConfig():
        return
    import re

    if scheme == "github" and not re.match(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+\Z", repository):
        document.refuse(("publish",), "is not a repository", "write github:OWNER/REPOSITORY")
    if github.repository and not re.match(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+\Z", github.repository):
        document.refuse(("github", "repository"), "is not a repository", "write OWNER/NAME")
    if not github.token.startswith(("env:", "file:")):
        document.refuse(("github", "token"), "is not a reference", "write env:NAME or file:PATH")
    for key in ("api", "uploads"):
        url = getattr(github, key)
        local = re.match(r"http://(?:127\.0\.0\.1|localhost)(?::[0-9]+)?(?:/|\Z)", url)
        if not re.match(r"https?://[A-Za-z0-9.:\[\]-]+(?:/[A-Za-z0-9._/-]*)?\Z", url) or url.endswith("/"):
            document.refuse(("github", key), "is not an address", "write https://api.github.com")
        elif url.startswith("http://") and not local:
            document.refuse(("github", key), "is not encrypted", "a token goes there: use https")
