"""Pictures as the model takes them: readable, the right way up, and no larger than is of use."""

import io
import threading

from PIL import Image, ImageOps

_TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "GIF": "image/gif", "WEBP": "image/webp"}
_READ = (*_TYPES, "AVIF", "BMP", "HEIF", "TIFF")
"""What phones and apps send, as far as there is a reader; a JPEG may be an MPO. Others' readers, the one of EPS above
all, are more of a way in than of use."""
_LONG_EDGE = 1568
"""Pixels: larger ones are made smaller by the API itself, after they were sent and waited for."""
_MOST_PIXELS = 20_000_000
"""Up to a dozen bytes each. More are refused unread: a small file can hold a picture that fills the memory."""
_MOST_OF_A_PHOTO = 50_000_000
"""Of a JPEG, which is read at a fraction of its size."""
_MOST_BYTES = 3_700_000
"""5 MB of base64 is what the API takes of one picture."""
_ONE_AT_A_TIME = threading.Lock()


class UnreadablePictureError(Exception):
    """The picture can't be used; the message says why, in words for people."""


def fit_for_model(content: bytes) -> tuple[bytes, str]:
    """Return a picture and its media type, unchanged where it fits as it is; raises `UnreadablePictureError`.

    The whole picture is read, so that a broken one is found here and not by the model; one at a time, whoever calls.
    """
    try:
        with _ONE_AT_A_TIME:
            return _fitted(content)
    except UnreadablePictureError:
        raise
    except Exception as error:  # a reader of foreign bytes fails with whatever it likes
        raise UnreadablePictureError("it is no picture that I can read") from error


def _fitted(content: bytes) -> tuple[bytes, str]:
    with _opened(content) as picture:
        picture.verify()  # the model's side is stricter than a reader that makes do with what there is
    with _opened(content) as picture:
        media_type, long = _TYPES.get(picture.format or ""), max(picture.size)
        picture.draft("RGB", (picture.width * _LONG_EDGE // long or 1, picture.height * _LONG_EDGE // long or 1))
        if picture.width * picture.height > _MOST_PIXELS:
            raise UnreadablePictureError("it has too many pixels")
        picture.load()
        upright = picture.getexif().get(0x0112, 1) == 1  # the tag of its orientation
        if media_type and upright and long <= _LONG_EDGE and len(content) <= _MOST_BYTES:
            return content, media_type
        picture.thumbnail((_LONG_EDGE, _LONG_EDGE))
        return _encoded(ImageOps.exif_transpose(picture))


def _opened(content: bytes) -> Image.Image:
    Image.init()
    picture = Image.open(io.BytesIO(content), formats=[kind for kind in _READ if kind in Image.OPEN])
    if picture.width * picture.height > _MOST_OF_A_PHOTO:
        raise UnreadablePictureError("it has too many pixels")
    return picture


def _encoded(picture: Image.Image) -> tuple[bytes, str]:
    out = io.BytesIO()
    if "A" in picture.getbands() or "transparency" in picture.info:
        picture.convert("RGBA").save(out, "PNG")
        if out.tell() <= _MOST_BYTES:
            return out.getvalue(), "image/png"
        out = io.BytesIO()
    picture.convert("RGB").save(out, "JPEG", quality=88)
    return out.getvalue(), "image/jpeg"
