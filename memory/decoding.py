"""The bytes of a note as text: people edit notes with whatever they have, and some of that saves UTF-16."""

import codecs

_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decoded(data: bytes) -> str:
    """Return the text without its byte order mark; what can't be read in it shows as U+FFFD.

    It is UTF-16 if such a mark says so, and else UTF-8. Any other encoding can only be guessed.
    """
    return data.decode(encoding_of(data), "replace")


def decoded_exactly(data: bytes) -> str:
    """Return the text as `decoded` does; raises `UnicodeDecodeError` if something of it can't be read."""
    return data.decode(encoding_of(data))


def encoding_of(data: bytes) -> str:
    """Return the name of the encoding in which a text that begins so is to be read."""
    return "utf-16" if data.startswith(_WIDE_MARKS) else "utf-8-sig"
