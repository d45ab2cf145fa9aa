"""The encodings that a text source may have: those that every implementation reads and writes alike.

A name may be in any case, with `_` or a space for `-`. A byte order mark before UTF-8 is accepted, is not part of the
text and is never written. UTF-16 without a mark is little-endian; KFM writes it little-endian with a mark.
"""

from __future__ import annotations

_CODECS = {  # our name: Python's name
    "ascii": "ascii",
    "cp437": "cp437",
    "cp850": "cp850",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1252": "cp1252",
    "iso-8859-2": "iso8859-2",
    "iso-8859-15": "iso8859-15",
    "koi8-r": "koi8-r",
    "latin-1": "latin-1",
    "mac-roman": "mac-roman",
    "utf-8": "utf-8",
    "utf-8-sig": "utf-8-sig",
    "utf-16": "utf-16",
    "utf-16-be": "utf-16-be",
    "utf-16-le": "utf-16-le",
}
_ALSO = {
    "us-ascii": "ascii",
    "windows-1250": "cp1250",
    "windows-1251": "cp1251",
    "windows-1252": "cp1252",
    "iso8859-1": "latin-1",
    "iso-8859-1": "latin-1",
    "latin1": "latin-1",
    "iso8859-2": "iso-8859-2",
    "latin2": "iso-8859-2",
    "iso8859-15": "iso-8859-15",
    "macroman": "mac-roman",
    "utf8": "utf-8",
    "utf16": "utf-16",
    "utf-16be": "utf-16-be",
    "utf-16le": "utf-16-le",
}
KNOWN = tuple(_CODECS)


def encoding_of(name: str) -> str:
    """Return the name of an encoding as `KNOWN` spells it; empty if the encoding is not known."""
    plain = name.lower().replace("_", "-").replace(" ", "-") if name.isascii() else ""
    return plain if plain in _CODECS else _ALSO.get(plain, "")


def codec_of(name: str) -> str:
    """Return Python's codec for decoding a whole text; it drops a byte order mark before UTF-8."""
    known = encoding_of(name)
    return "utf-8-sig" if known == "utf-8" else _CODECS.get(known, name)


def input_codec(name: str, start: bytes) -> tuple[str, int]:
    """Return Python's codec for a text that begins with these bytes (three, if there are as many), and the length of
    the byte order mark. The codec decodes the text after the mark, piece by piece."""
    known = encoding_of(name)
    if known in ("utf-8", "utf-8-sig"):
        return "utf-8", 3 * start.startswith(b"\xef\xbb\xbf")
    if known == "utf-16":
        return "utf-16-be" if start.startswith(b"\xfe\xff") else "utf-16-le", 2 * start.startswith(_UTF_16_MARKS)
    return _CODECS[known], 0


def output_codec(name: str) -> tuple[str, bytes]:
    """Return Python's codec for writing, and the byte order mark to write first."""
    known = encoding_of(name)
    if known == "utf-16":
        return "utf-16-le", b"\xff\xfe"
    return "utf-8" if known == "utf-8-sig" else _CODECS[known], b""


_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def is_delimiter(text: str) -> bool:
    """Return whether the text is one character that UTF-16 also stores as one unit."""
    return len(text) == 1 and text not in '"\r\n\0' and (text < "\ud800" or "\udfff" < text <= "\uffff")
