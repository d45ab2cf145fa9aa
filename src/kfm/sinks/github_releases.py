"""Publish as releases of a GitHub repository: one release per version, one release as the pointer, and an event.

A version is the release `<dataset>-<version>` with its files as assets; while it is a prerelease, some files are
missing. The text of the release `<dataset>-current` names the public version. Every step can be repeated: existing
assets are recognized by name and digest, and KFM asks GitHub whether something was done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, count
from typing import Any, Protocol

import msgspec

from kfm.errors import Busy, Corrupt, Refused, Unavailable
from kfm.model.canonical import canonical
from kfm.model.keys import digest as digest_of
from kfm.model.names import check_path
from kfm.model.ports import Lock, Publisher
from kfm.model.records import Difference
from kfm.sinks.noop import TracingPublisher

MOST_ASSETS = 1000  # GitHub's limit per release


class Transport(Protocol):
    """Sends HTTP requests. Raises Unavailable if there is no answer."""

    def call(
        self, method: str, url: str, headers: dict[str, str], body: bytes | Iterable[bytes] | None
    ) -> tuple[int, dict[str, str], bytes]: ...


class GitHubPublisher(TracingPublisher):
    """Publishes as GitHub releases. `local` takes the private files: receipts, and which events were sent."""

    shares_files = False  # an asset belongs to one release

    def __init__(
        self,
        repository: str,
        token: Callable[[], str],
        transport: Transport,
        local: Publisher,
        lock: Callable[[], Lock],
        *,
        api: str = "https://api.github.com",
        uploads: str = "https://uploads.github.com",
        is_latest: Callable[[Mapping[str, Any]], bool] = lambda _pointer: False,
    ) -> None:
        super().__init__(dry_run=False)
        self._api = f"{api}/repos/{repository}"
        self._uploads = f"{uploads}/repos/{repository}"
        self._token = token
        self._transport = transport
        self._local = local
        self._open_lock = lock
        self._is_latest = is_latest
        self._releases: dict[str, dict[str, Any]] = {}  # by tag, as last read

    # -- the Publisher port

    def write_file(self, path: str, digest: str, size: int, key: str, body: Iterable[bytes]) -> None:
        """Upload a file. The same bytes again change nothing; other bytes under the same name raise Corrupt."""
        check_path(path)
        parts = path.split("/")
        if parts[0] != "datasets":
            self._local.write_file(path, digest, size, key, body)
            self._local.trace.clear()  # this publisher's trace has it
        else:
            with self._turn():
                self._upload(_tag_of(parts), _asset_name(path), digest, size, body)
        self._note("write_file", path, digest, size, key)

    def remove_file(self, path: str, key: str, check: Callable[[], None]) -> None:
        """Delete the asset. If its release does not exist, none is created."""
        check_path(path)
        with self._turn():
            check()
            tag, name = _tag_of(path.split("/")), _asset_name(path)
            release = self._releases.get(tag) or self._find(tag)
            for asset in list(release["assets"]) if release is not None else []:
                if release is not None and asset["name"] == name:
                    self._ask("DELETE", f"{self._api}/releases/assets/{asset['id']}", None, ok=(204, 404))
                    release["assets"].remove(asset)
                    self._releases[tag] = release
        self._note("remove_file", path, "", 0, key)

    def remove_rest(self, folder: str, check: Callable[[], None]) -> None:
        """Delete the release of the version with all its remaining assets."""
        if folder.count("/") < 3:  # the folder of a whole dataset: its releases are removed one by one
            return
        tag = _tag_of(folder.split("/"))
        with self._turn():
            check()
            release = self._find(tag)
            if release is not None:
                self._ask("DELETE", f"{self._api}/releases/{release['id']}", None, ok=(204, 404))
            self._releases.pop(tag, None)

    def datasets(self) -> list[str]:
        """Return no datasets: the repository may be shared, so only datasets that the refs name are checked."""
        return []

    def digest_of_file(self, path: str) -> str | None:
        return self._local.digest_of_file(path)

    def names(self, folder: str) -> list[str]:
        return self._local.names(folder)

    def differences(self, dataset: str, expected: Mapping[str, str], gone: Sequence[str]) -> list[Difference]:
        pointer = f"datasets/{dataset}/current.json"
        wrong: dict[str, str] = {}
        releases = {tag: self._find(tag) for tag in {_tag_of(p.split("/")) for p in expected if p != pointer}}
        for path, digest in expected.items():
            if path == pointer:
                release = self._find(f"{dataset}-current")
                if release is None or digest_of(str(release.get("body")).encode()) != digest:
                    wrong[path] = "missing" if release is None else "altered"
                continue
            release = releases[_tag_of(path.split("/"))]
            asset = next((a for a in (release or {"assets": []})["assets"] if a["name"] == _asset_name(path)), None)
            if asset is None or asset["state"] != "uploaded":
                wrong[path] = "missing"
            elif asset.get("digest") not in (None, digest):
                wrong[path] = "altered"
        wrong |= {folder: "foreign" for folder in gone if self._find(_tag_of(folder.split("/"))) is not None}
        there = (f"datasets/{dataset}/versions/{version}" for version in self._versions(dataset))
        wrong |= {folder: "foreign" for folder in there if _tag_of(folder.split("/")) not in releases}
        self._releases.clear()
        return [Difference(dataset=dataset, path=path, kind=wrong[path]) for path in sorted(wrong)]  # type: ignore[arg-type]

    def update_metadata(self, target: str, value: dict[str, Any], key: str) -> None:
        """Write the pointer release. A pointer with a lower `seq` than the existing one is late and ignored, unless it
        is the latest."""
        body = canonical(value)
        with self._turn():
            dataset, version = str(value["dataset"]), str(value["version"])
            if version:
                self._complete(f"{dataset}-{version.removeprefix('sha256:')[:16]}")
            self._point(f"{dataset}-current", value)
        self._note("update_metadata", target, digest_of(body), len(body), key)

    def emit_event(self, event: dict[str, Any], key: str) -> None:
        """Send a repository_dispatch at least once. The receiver recognizes a repetition by `key`."""
        body = canonical(event)
        kind = str(event.get("type", ""))
        with self._turn():
            payload = {"event_type": kind[:100], "client_payload": {**event, "key": key}}
            self._ask("POST", f"{self._api}/dispatches", payload, ok=(204,))
        self._local.emit_event(event, key)
        self._local.trace.clear()
        self._note("emit_event", kind, digest_of(body), len(body), key)

    def publish_release(self, name: str, files: list[str], key: str) -> None:
        body = canonical({"name": name, "files": files})
        with self._turn():
            self._release(name, "")
            self._complete(name)
        self._note("publish_release", name, digest_of(body), len(body), key)

    # -- releases

    def _release(self, tag: str, text: str, *, anew: bool = False) -> dict[str, Any]:
        """Return the release of a tag; create it if there is none."""
        if not anew and tag in self._releases:
            return self._releases[tag]
        found = self._find(tag)
        if found is None:
            wanted = {"tag_name": tag, "name": tag, "body": text, "prerelease": True, "make_latest": "false"}
            status, made = self._ask("POST", f"{self._api}/releases", wanted, ok=(201, 422))
            # 422: another process created it meanwhile, or an answer was lost; ask again.
            found = made if status == 201 else self._find(tag)
            if found is None:
                raise Unavailable(f"GitHub could not create the release {tag}", hint="`kfm resume` tries again")
        self._releases[tag] = found
        return found

    def _find(self, tag: str) -> dict[str, Any] | None:
        status, found = self._ask("GET", f"{self._api}/releases/tags/{tag}", None, ok=(200, 404))
        if status == 404:
            return None
        assets: list[dict[str, Any]] = []
        page = 1
        while True:
            url = f"{self._api}/releases/{found['id']}/assets?per_page=100&page={page}"
            _, some = self._ask("GET", url, None, ok=(200,))
            assets += some
            if len(some) < 100:
                return {**found, "assets": assets}
            page += 1

    def _versions(self, dataset: str) -> Iterator[str]:
        """Yield every version of this dataset that KFM released: recognized by its tag, its name and an empty text."""
        for page in count(1):
            _, some = self._ask("GET", f"{self._api}/releases?per_page=100&page={page}", None, ok=(200,))
            for release in some:
                tag = str(release["tag_name"])
                name, _, version = tag.rpartition("-")
                ours = name == dataset and len(version) == 16 and not version.strip("0123456789abcdef")
                if ours and release.get("name") == tag and not release.get("body") and not release.get("draft"):
                    yield version
            if len(some) < 100:
                return

    def _upload(self, tag: str, name: str, digest: str, size: int, body: Iterable[bytes]) -> None:
        release = self._releases.get(tag) or self._find(tag)
        if release is not None and self._has(release, name, digest, size):
            return
        pieces = iter(body)
        body = chain([next(pieces, b"")], pieces)  # read before anything is changed
        release = release or self._release(tag, "")
        self._releases[tag] = release
        if len(release["assets"]) >= MOST_ASSETS:
            raise Refused(
                f"the release {tag} would have more than {MOST_ASSETS} files, and GitHub does not allow that",
                hint="publish to a folder, or produce fewer and larger files",
            )
        url = f"{self._uploads}/releases/{release['id']}/assets?name={name}"
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        status, made = self._ask("POST", url, body, ok=(201, 422), more=headers)
        if status == 422:  # the asset exists, complete or cut: the answer to an earlier upload was lost
            release = self._release(tag, "", anew=True)
            if not self._has(release, name, digest, size):
                raise Unavailable(f"GitHub did not accept {name}", hint="`kfm resume` tries again")
            return
        if made.get("state") != "uploaded" or made.get("size") != size or made.get("digest") not in (None, digest):
            raise Unavailable(f"GitHub did not store {name} as sent", hint="`kfm resume` tries again")
        release["assets"].append(made)

    def _has(self, release: dict[str, Any], name: str, digest: str, size: int) -> bool:
        """Say whether the complete asset exists. An incomplete asset of a broken upload is deleted. Raise Corrupt for
        other bytes.
        """
        for asset in list(release["assets"]):
            if asset["name"] != name:
                continue
            if asset["state"] != "uploaded":
                self._ask("DELETE", f"{self._api}/releases/assets/{asset['id']}", None, ok=(204, 404))
                release["assets"].remove(asset)
                return False
            if asset["size"] != size or asset.get("digest") not in (None, digest):
                raise Corrupt(
                    f"the asset {name} of {release['tag_name']} was altered",
                    hint="delete the asset on GitHub, then run `kfm resume`",
                )
            return True
        return False

    def _complete(self, tag: str) -> None:
        release = self._release(tag, "")
        if release.get("prerelease"):
            wanted = {"prerelease": False, "make_latest": "true"}
            _, changed = self._ask("PATCH", f"{self._api}/releases/{release['id']}", wanted, ok=(200,))
            self._releases[tag] = {**release, **changed, "assets": release["assets"]}

    def _point(self, tag: str, value: dict[str, Any]) -> None:
        text = canonical(value).decode()
        release = self._release(tag, text, anew=True)
        later = _seq_of(release.get("body")) < int(value.get("seq", 0))
        if later or (release.get("body") != text and self._is_latest(value)):
            wanted = {"body": text, "prerelease": not value["version"], "make_latest": "false"}
            self._ask("PATCH", f"{self._api}/releases/{release['id']}", wanted, ok=(200,))
        elif release.get("prerelease") and release.get("body") == text and value["version"]:
            self._ask("PATCH", f"{self._api}/releases/{release['id']}", {"prerelease": False}, ok=(200,))

    # -- requests

    def _ask(
        self, method: str, url: str, value: Any, *, ok: tuple[int, ...], more: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self._token()}",
            "User-Agent": "kfm",
            "X-GitHub-Api-Version": "2022-11-28",
            **(more or {}),
        }
        body = value if more or value is None else canonical(value)
        if body is not None and not more:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        status, answered, answer = self._transport.call(method, url, headers, body)
        what = f"{method} {url.partition('/repos/')[2].partition('?')[0]}"
        if status not in ok:
            raise refusal(status, what, answered)
        try:
            return status, msgspec.json.decode(answer) if answer and status != 204 else {}
        except msgspec.MsgspecError:
            raise Unavailable(f"GitHub answers {what} with invalid JSON", hint="`kfm resume` tries again") from None

    @contextmanager
    def _turn(self) -> Iterator[None]:
        import time

        lock = self._open_lock()
        try:
            for _ in range(3000):
                if lock.take():
                    break
                time.sleep(0.01)
            else:
                raise Busy("another process is publishing", hint="the commit is kept; `kfm resume` publishes it")
            yield
        finally:
            lock.close()


def refusal(status: int, what: str, headers: dict[str, str]) -> Unavailable | Refused:
    spent = headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers
    if status in (408, 425, 429) or status >= 500 or (status == 403 and spent):
        wait = headers.get("retry-after", "")
        after = int(wait) if wait.isascii() and wait.isdigit() and len(wait) < 6 else None
        return Unavailable(
            f"GitHub answers {status} to {what}",
            hint="the commit is kept; `kfm resume` publishes it later",
            retry_after_s=after,
        )
    if status in (401, 403, 404):
        return Refused(
            f"GitHub answers {status} to {what}",
            hint="check the repository's name and that the token may write its contents; then run `kfm resume`",
        )
    return Refused(f"GitHub answers {status} to {what}", hint="run `kfm resume --verbose` and report the answer")


def _tag_of(parts: list[str]) -> str:
    """Return the release tag of datasets/<dataset>/versions/<version>/…, or of a file next to that folder."""
    return f"{parts[1]}-{parts[3].partition('.')[0]}"


def _asset_name(path: str) -> str:
    """Return an asset name that no two files of a version share and that GitHub keeps unchanged."""
    return f"{hashlib.sha256(path.encode()).hexdigest()[:12]}.{path.rpartition('/')[2]}"


def _seq_of(body: object) -> int:
    try:
        return int(msgspec.json.decode(str(body)).get("seq", 0))
    except (ValueError, AttributeError, TypeError, msgspec.MsgspecError):
        return -1
