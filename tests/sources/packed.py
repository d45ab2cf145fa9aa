"""Archives as people pack them, and hostile ones."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable

ROWS = b"id,mm\n1,2\n2,3\n"
NAME = "data/rain.csv"


def zipped(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, body in members:
            archive.writestr(zipfile.ZipInfo(name), body, method)
    return out.getvalue()


def streamed_zip(name: str, body: bytes) -> bytes:
    """As a program writes that cannot go back: sizes stand behind the bytes."""

    class OneWay(io.RawIOBase):
        def __init__(self) -> None:
            self.body = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            self.body += bytes(data)  # type: ignore[call-overload]
            return len(bytes(data))  # type: ignore[call-overload]

    out = OneWay()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[arg-type]
        archive.writestr(name, body)
    return bytes(out.body)


def tarred(*members: tuple[str, bytes], kind: str = "w", form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=kind, format=form) as archive:  # type: ignore[call-overload]
        for name, body in members:
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return out.getvalue()


def _tar_of(name: str, **fields: object) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo(name)
        for key, value in fields.items():
            setattr(info, key, value)
        archive.addfile(info)
    return out.getvalue()


def _zip_link() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo(NAME)
        info.create_system = 3
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    return out.getvalue()


def _patched(body: bytes, at: int, field: bytes) -> bytes:
    return body[:at] + field + body[at + len(field) :]


def _central(body: bytes) -> int:
    return body.rindex(b"PK\x01\x02")


def _encrypted() -> bytes:
    body = zipped((NAME, ROWS))
    return _patched(body, _central(body) + 8, struct.pack("<H", 1))


def _absurd() -> bytes:
    """It says it is four exabytes."""
    body = zipped((NAME, ROWS), method=zipfile.ZIP_STORED)
    at = _central(body)
    extra = struct.pack("<HHQQ", 1, 16, 1 << 62, 1 << 62)
    head = _patched(body[at:], 20, b"\xff" * 8)
    head = _patched(head, 30, struct.pack("<H", len(extra)))
    name_end = 46 + len(NAME)
    end = head.index(b"PK\x05\x06")
    table = head[:name_end] + extra + head[name_end:end]
    tail = _patched(head[end:], 12, struct.pack("<L", len(table)))
    return body[:at] + table + tail


def _many() -> bytes:
    """A table that says it has four billion entries."""
    body = zipped((NAME, ROWS))
    end = body.rindex(b"PK\x05\x06")
    at = _central(body)
    wide = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1 << 32, 1 << 32, end - at, at)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
    return body[:end] + wide + locator + _patched(body[end:], 8, b"\xff" * 12)


def _two_tables() -> bytes:
    """The name before the bytes is another than the one in the table."""
    body = zipped((NAME, ROWS))
    return body.replace(NAME.encode(), b"data/rain.exe", 1)


def _bad_sum() -> bytes:
    body = zipped((NAME, ROWS), method=zipfile.ZIP_STORED)
    return body.replace(b"1,2", b"1,9", 1)


def _long_header() -> bytes:
    """Attributes of two gigabytes, of which there are none."""
    head = bytearray(_tar_of("x")[:512])
    head[156:157] = b"x"
    head[124:136] = b"17777777777\0"
    head[148:156] = b" " * 8
    head[148:156] = f"{sum(head):06o}\0 ".encode()
    return bytes(head) + b"\0" * 512


def bomb(size: int) -> bytes:
    """Gzipped zeros, made without holding them."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [squeeze.compress(bytes(1 << 20)) for _ in range(size >> 20)]
    return b"".join([*parts, squeeze.flush()])


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "a gzip bomb": (lambda: bomb(64 << 20), "unpacks to more than 200 times its size"),
    "a zip bomb": (lambda: zipped((NAME, bytes(16 << 20))), "unpacks to more than 200 times its size"),
    "a zip that is cut": (lambda: zipped((NAME, ROWS * 99))[:-40], "ended in the middle of the archive"),
    "a tar that is cut": (lambda: tarred((NAME, ROWS * 999))[:2000], "ended in the middle of the archive"),
    "a tar without an end": (lambda: tarred((NAME, ROWS))[:1024], "ended in the middle of the archive"),
    "a gzipped tar that is cut": (lambda: tarred((NAME, ROWS * 999), kind="w:gz")[:-30], "in the middle of its gzip"),
    "an absurd size in a zip": (_absurd, "is larger than the"),
    "an absurd size in a tar": (lambda: _tar_of(NAME, size=1 << 60), "is larger than the"),
    "an absurd number of members": (_many, "has more than 1,000,000 members"),
    "attributes without end": (_long_header, "is a malformed archive"),
    "a name twice in a zip": (lambda: _doubled(zipped), "has 'data/rain.csv' twice"),
    "a name twice in a tar": (lambda: tarred((NAME, ROWS), (NAME, b"other\n")), "has 'data/rain.csv' twice"),
    "a link in a zip": (_zip_link, "is a link, a folder or a device"),
    "a link in a tar": (lambda: _tar_of(NAME, type=tarfile.SYMTYPE, linkname="/etc/passwd"), "is a link, a folder"),
    "a hard link": (lambda: _tar_of(NAME, type=tarfile.LNKTYPE, linkname="../x"), "is a link, a folder or a device"),
    "a device": (lambda: _tar_of(NAME, type=tarfile.CHRTYPE), "is a link, a folder or a device"),
    "an absolute name in a zip": (lambda: zipped(("/etc/x", ROWS), (NAME, ROWS)), "a member name that leads out"),
    "an absolute name in a tar": (lambda: tarred(("/etc/x", ROWS), (NAME, ROWS)), "a member name that leads out"),
    "a name that climbs": (lambda: tarred(("data/../../x", ROWS), (NAME, ROWS)), "a member name that leads out"),
    "a name of Windows that climbs": (
        lambda: zipped(("..\\..\\x", ROWS), (NAME, ROWS)),
        "a member name that leads out",
    ),
    "a drive": (lambda: zipped(("C:/x", ROWS), (NAME, ROWS)), "a member name that leads out"),
    "an encrypted member": (_encrypted, "is encrypted"),
    "a zip in a zip": (lambda: zipped((NAME, zipped(("a", ROWS)))), "unpacks one level only"),
    "a gzip in a tar": (lambda: tarred((NAME, gzip.compress(ROWS))), "unpacks one level only"),
    "a tar in a zip": (lambda: zipped((NAME, tarred(("a", ROWS)))), "unpacks one level only"),
    "two tables": (_two_tables, "is a malformed archive"),
    "bytes that differ from their sum": (_bad_sum, "is a malformed archive"),
    "another way of packing": (
        lambda: zipped((NAME, ROWS * 99), method=zipfile.ZIP_BZIP2),
        "an unsupported compression method",
    ),
    "no archive": (lambda: ROWS, "is neither a zip nor a tar archive"),
    "another member": (lambda: zipped(("other.csv", ROWS)), "has no member 'data/rain.csv'"),
    "nothing in it": (lambda: zipped(), "has no member 'data/rain.csv'"),
}


def _doubled(pack: Callable[..., bytes]) -> bytes:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pack((NAME, ROWS), (NAME, b"other\n"))
