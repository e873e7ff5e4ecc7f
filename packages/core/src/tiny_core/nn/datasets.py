"""Data sets, as tensors of the bytes in their files. Nothing is invented: a set is found, checked, or a
DataError."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tiny_core import dtypes
from tiny_core.engine.cache import user_cache_folder
from tiny_core.errors import DataError
from tiny_core.ir import payload as p
from tiny_core.nn.idx import Idx, parse_idx, unpacked
from tiny_core.settings import DATA
from tiny_core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from tiny_core.nn.download import Progress


@dataclass(frozen=True, slots=True)
class Published:
    """A file of a data set as its makers published it: name, size and sha256 of its uncompressed bytes."""

    name: str
    nbytes: int
    sha256: str


FASHION_MNIST_URL: Final = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
"""Where Zalando Research publishes Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017; MIT licence)."""
FASHION_MNIST_PACKAGE: Final = "/usr/share/datasets/fashion-mnist"
"""Where Debian's package dataset-fashion-mnist puts it."""
FASHION_MNIST_LABELS: Final = (
    "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
FASHION_MNIST_FILES: Final = (
    Published(
        "train-images-idx3-ubyte",
        47_040_016,
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    ),
    Published(
        "train-labels-idx1-ubyte", 60_008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
    ),
    Published(
        "t10k-images-idx3-ubyte",
        7_840_016,
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    ),
    Published(
        "t10k-labels-idx1-ubyte", 10_008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
    ),
)


def fashion_mnist(
    path: str | os.PathLike[str] | None = None,
    device: p.Device | None = None,
    *,
    download: bool = False,
    url: str = FASHION_MNIST_URL,
    progress: Progress | None = None,
    files: tuple[Published, ...] = FASHION_MNIST_FILES,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Fashion-MNIST: grey 28x28 images of ten kinds of clothes, `FASHION_MNIST_LABELS`.

    It is looked for in the folder given, and only there; else in the folder that the setting DATA (TINY_DATA)
    names, among earlier downloads, and in Debian's package. Files may be gzipped or not. What is found must
    be what was published.

    Args:
        path: folder of the four IDX files.
        device: where the tensors go; None for the default device.
        download: whether to get what is in none of these places from `url`, into the folder given or that
            of downloads.
        url: folder of the published archives.
        progress: is told of a download.
        files: names, sizes and sums to expect: training images and labels, test images and labels.

    Returns:
        training images, uint8 of shape (60000, 1, 28, 28), their labels, uint8 of shape (60000,), and
        10,000 of each for testing.

    Raises:
        DataError: it is nowhere, or what is there is truncated or something else; a download failed.

    >>> images, labels, *_ = fashion_mnist()                                            # doctest: +SKIP
    >>> images.shape, FASHION_MNIST_LABELS[labels[0].item()]                            # doctest: +SKIP
    ((60000, 1, 28, 28), 'ankle boot')
    """
    folder = _folder(path, files)
    target = _downloads() if path is None else os.fspath(path)
    if download and folder in (None, target):
        _download(target, files, url, progress)
        folder = target
    if folder is None:
        raise _missing(path, files)
    images, labels, test_images, test_labels = (_read(folder, file) for file in files)
    return (
        *_tensors(folder, images, labels, device),
        *_tensors(folder, test_images, test_labels, device),
    )


def _tensors(folder: str, images: Idx, labels: Idx, device: p.Device | None) -> tuple[Tensor, Tensor]:
    count = images.shape[:1]
    if len(images.shape) != 3 or labels.shape != count or {images.dtype, labels.dtype} != {dtypes.uint8}:
        raise DataError(
            f"{folder}: images of shape {images.shape} with labels of shape {labels.shape}",
            "images are bytes of shape (n, height, width), labels bytes of shape (n,)",
        )
    height, width = images.shape[1:]
    return Tensor(images.data, device).reshape(*count, 1, height, width), Tensor(labels.data, device)


# ---- finding -----------------------------------------------------------------------------------------------


def _downloads() -> str:
    """Where a download goes."""
    return os.path.join(DATA.value or os.path.join(user_cache_folder(), "datasets"), "fashion-mnist")


def _places() -> Iterator[str]:
    if DATA.value:
        yield DATA.value
    yield _downloads()
    yield FASHION_MNIST_PACKAGE


def _folder(path: str | os.PathLike[str] | None, files: tuple[Published, ...]) -> str | None:
    """The first folder that has a file of the set."""
    places = _places() if path is None else iter((os.fspath(path),))
    return next((place for place in places if any(_find(place, file.name) for file in files)), None)


def _find(folder: str, name: str) -> str | None:
    paths = (os.path.join(folder, name + end) for end in (".gz", ""))
    return next((path for path in paths if os.path.isfile(path)), None)


def _missing(path: str | os.PathLike[str] | None, files: tuple[Published, ...]) -> DataError:
    if path is not None:
        names = ", ".join(file.name + "[.gz]" for file in files)
        return DataError(f"no Fashion-MNIST in {os.fspath(path)}", f"the folder should hold {names}")
    return DataError(
        f"no Fashion-MNIST in any of {', '.join(_places())}",
        "install Debian's package (apt install dataset-fashion-mnist), set TINY_DATA to a folder with it, or "
        "pass download=True",
    )


# ---- checking ----------------------------------------------------------------------------------------------


def _read(folder: str, file: Published) -> Idx:
    path = _find(folder, file.name)
    if path is None:
        raise DataError(f"{folder} has no {file.name}", "it has other files of Fashion-MNIST; get all four")
    content = unpacked(path)
    parsed = parse_idx(content, path)  # first: it can say what is wrong with a truncated file
    _check(content, path, file)
    return parsed


def _check(content: bytes, path: str, file: Published) -> None:
    if len(content) != file.nbytes:
        size = f"{len(content)} bytes" if len(content) <= file.nbytes else "more"
        raise DataError(
            f"{path} has {size}, uncompressed, and should have {file.nbytes}", "get the file again"
        )
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise DataError(
            f"{path} is not the published {file.name}: its sha256 differs",
            "it is damaged, or a file of another data set; get it again",
        )


def _download(folder: str, files: tuple[Published, ...], url: str, progress: Progress | None) -> None:
    from tiny_core.nn.download import download  # brings urllib, which takes longer to import than all of nn

    for file in files:
        if _find(folder, file.name) is None:
            where, name = f"{url.rstrip('/')}/{file.name}.gz", os.path.join(folder, file.name + ".gz")
            download(where, name, partial(_check_archive, file), progress=progress)


def _check_archive(file: Published, path: str) -> None:
    _check(unpacked(path, file.nbytes + 1), path, file)
