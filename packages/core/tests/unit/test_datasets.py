"""Data sets: the IDX format, where a set is looked for, and what a download may be."""

from __future__ import annotations

import gzip
import hashlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.errors import DataError
from tiny_core.nn import datasets
from tiny_core.nn.aside import write_aside
from tiny_core.nn.datasets import FASHION_MNIST_FILES, FASHION_MNIST_PACKAGE, Published, fashion_mnist
from tiny_core.nn.download import download
from tiny_core.nn.idx import parse_idx, read_idx
from tiny_core.settings import Context

from ..oracle import Engine

NAMES = [file.name for file in FASHION_MNIST_FILES]


def idx(array: np.ndarray, code: int = 0x08) -> bytes:
    """The IDX file of an array, written from the format's description."""
    header = struct.pack(">BBBB", 0, 0, code, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def small_set() -> dict[str, bytes]:
    """A set of three training and two test images, in the form of Fashion-MNIST."""
    rng = np.random.default_rng(0)
    arrays = []
    for n in (3, 2):
        arrays.append(rng.integers(0, 256, (n, 28, 28), dtype=np.uint8))
        arrays.append(rng.integers(0, 10, n, dtype=np.uint8))
    return {name: idx(array) for name, array in zip(NAMES, arrays, strict=True)}


SET = small_set()
FILES = tuple(Published(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in SET.items())


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No data set is anywhere; returns the folder that TINY_DATA names."""
    monkeypatch.setattr(datasets, "FASHION_MNIST_PACKAGE", str(tmp_path / "package"))
    monkeypatch.setattr(datasets, "user_cache_folder", lambda: str(tmp_path / "cache"))
    monkeypatch.delenv("TINY_DATA", raising=False)
    return tmp_path / "data"


def put(folder: Path, zipped: bool = True, changed: dict[str, bytes] | None = None) -> Path:
    """Write the small set to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in {**SET, **(changed or {})}.items():
        path = folder / (name + ".gz" * zipped)
        path.write_bytes(gzip.compress(data, 1) if zipped else data)
    return folder


# ---- IDX ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind"), [(0x08, "u1"), (0x09, "i1"), (0x0B, "i2"), (0x0C, "i4"), (0x0D, "f4"), (0x0E, "f8")]
)
def test_every_type_of_idx_is_read(code: int, kind: str) -> None:
    array = np.arange(-3, 3).reshape(2, 3).astype(kind)
    read = parse_idx(idx(array, code))
    assert (read.shape, read.dtype.name) == (array.shape, array.dtype.name)
    assert bytes(read.data) == array.tobytes()


def test_idx_may_be_gzipped_or_not(tmp_path: Path) -> None:
    for zipped in (True, False):
        folder = put(tmp_path / str(zipped), zipped)
        assert read_idx(folder / (NAMES[0] + ".gz" * zipped)).shape == (3, 28, 28)


GOOD = idx(np.zeros((2, 3), np.uint8))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with nothing"),
        (b"\x89PNG\r\n", "begins with 89 50 4e 47"),
        (b"\0\0\x07\x01\0\0\0\0", "no IDX file"),
        (GOOD[:10], "ends within its header, after 10 bytes"),
        (GOOD[:-1], r"truncated: shape \(2, 3\) of uint8 takes 6 bytes, and 5 follow"),
        (GOOD + b"x", "longer than its header says"),
    ],
)
def test_what_is_no_idx_is_told_apart(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "some-file"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"some-file.*{message}"):
        read_idx(path)


def test_damaged_archives(tmp_path: Path) -> None:
    path, archive = tmp_path / "x.gz", bytearray(gzip.compress(GOOD * 100))
    for content in (archive[:-9], archive[:20] + b"!!!!" + archive[24:]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"x.gz is damaged") as caught:
            read_idx(path)
        assert "again" in caught.value.hint
    with pytest.raises(DataError, match=r"cannot read .*absent: No such file"):
        read_idx(tmp_path / "absent")


# ---- where it is looked for --------------------------------------------------------------------------------


def test_a_set_becomes_tensors(oracle: Engine, tmp_path: Path) -> None:
    x, y, x_test, y_test = fashion_mnist(put(tmp_path), files=FILES)
    assert [t.shape for t in (x, y, x_test, y_test)] == [(3, 1, 28, 28), (3,), (2, 1, 28, 28), (2,)]
    assert {t.dtype for t in (x, y, x_test, y_test)} == {dtypes.uint8}
    np.testing.assert_array_equal(x.numpy().tobytes(), SET[NAMES[0]][16:])
    np.testing.assert_array_equal(y_test.numpy().tobytes(), SET[NAMES[3]][8:])


@pytest.mark.parametrize("place", ["data", "data/fashion-mnist", "cache/datasets/fashion-mnist", "package"])
def test_the_places_where_it_is_looked_for(oracle: Engine, nowhere: Path, tmp_path: Path, place: str) -> None:
    put(tmp_path / place)
    with Context(DATA=str(nowhere) if place.startswith("data") else ""):
        assert fashion_mnist(files=FILES)[1].shape == (3,)


def test_a_folder_given_is_the_only_one(nowhere: Path, tmp_path: Path) -> None:
    put(tmp_path / "package")
    with pytest.raises(DataError, match=r"no Fashion-MNIST in .*elsewhere") as caught:
        fashion_mnist(tmp_path / "elsewhere", files=FILES)
    assert "train-images-idx3-ubyte[.gz]" in caught.value.hint


def test_nowhere_says_how_to_get_it(nowhere: Path) -> None:
    with pytest.raises(DataError, match=r"no Fashion-MNIST in any of .*package") as caught:
        fashion_mnist()
    for way in ("apt install dataset-fashion-mnist", "TINY_DATA", "download=True"):
        assert way in caught.value.hint


def test_a_set_with_a_file_missing(tmp_path: Path) -> None:
    (put(tmp_path) / (NAMES[2] + ".gz")).unlink()
    with pytest.raises(DataError, match="has no t10k-images-idx3-ubyte"):
        fashion_mnist(tmp_path, files=FILES)


def test_what_is_found_must_be_what_was_published(tmp_path: Path) -> None:
    data = bytearray(SET[NAMES[0]])
    with pytest.raises(DataError, match=r"truncated: shape \(3, 28, 28\)"):
        fashion_mnist(put(tmp_path, changed={NAMES[0]: bytes(data[:-5])}), files=FILES)
    data[100] ^= 1
    with pytest.raises(DataError, match="is not the published train-images-idx3-ubyte: its sha256 differs"):
        fashion_mnist(put(tmp_path, changed={NAMES[0]: bytes(data)}), files=FILES)
    with pytest.raises(DataError, match="has 2368 bytes, uncompressed, and should have 47040016"):
        fashion_mnist(put(tmp_path))


@pytest.mark.skipif(not Path(FASHION_MNIST_PACKAGE).is_dir(), reason="dataset-fashion-mnist is not installed")
def test_the_published_sums_are_those_of_the_package(oracle: Engine) -> None:
    x, y, x_test, y_test = fashion_mnist(FASHION_MNIST_PACKAGE)
    assert (x.shape, x_test.shape) == ((60000, 1, 28, 28), (10000, 1, 28, 28))
    assert np.bincount(y.numpy()).tolist() == [6000] * 10  # the paper: classes are of equal size
    assert np.bincount(y_test.numpy()).tolist() == [1000] * 10


# ---- downloads ---------------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """A server of this machine. `answers` has bodies by path, or statuses; a list is used up, one an
    answer. `asked` has the paths that were asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.answers: dict[str, list[bytes | int | Callable[[Answer], None]]] = {}
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Answer(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        left = self.server.answers.get(self.path, [404])
        body = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(body, int):
            self.send_error(body)
        elif isinstance(body, bytes):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        else:
            body(self)

    def log_message(self, format: str, *args: object) -> None:
        pass


def half(body: bytes) -> Callable[[Answer], None]:
    """An answer whose connection ends in the middle of it."""

    def answer(request: Answer) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: len(body) // 2])
        request.connection.shutdown(socket.SHUT_RDWR)

    return answer


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """No pauses between attempts; returns those that were asked for."""
    pauses: list[float] = []
    monkeypatch.setattr("tiny_core.nn.download.time.sleep", pauses.append)
    return pauses


def publish(server: Server) -> None:
    server.answers = {f"/{name}.gz": [gzip.compress(data)] for name, data in SET.items()}


def accept(path: str) -> None:
    pass


def test_a_set_is_downloaded_once(oracle: Engine, nowhere: Path, server: Server, tmp_path: Path) -> None:
    publish(server)
    shown: list[tuple[str, int, int]] = []
    for _ in range(2):
        x, *_ = fashion_mnist(
            files=FILES, download=True, url=server.url, progress=lambda *at: shown.append(at)
        )
        assert x.shape == (3, 1, 28, 28)
    assert server.asked == [f"/{name}.gz" for name in NAMES]
    sizes = {
        name: len(answers[0]) for name, answers in server.answers.items() if isinstance(answers[0], bytes)
    }
    assert {name: (done, total) for name, done, total in shown} == {
        name.strip("/"): (size, size) for name, size in sizes.items()
    }
    folder = tmp_path / "cache" / "datasets" / "fashion-mnist"
    assert sorted(p.name for p in folder.iterdir()) == sorted(name + ".gz" for name in NAMES)


def test_an_interrupted_download_goes_on_where_it_stopped(
    oracle: Engine, nowhere: Path, server: Server, quick: list[float]
) -> None:
    publish(server)
    server.answers[f"/{NAMES[2]}.gz"].insert(0, 404)
    with Context(DATA=str(nowhere)):
        with pytest.raises(DataError, match="404 Not Found"):
            fashion_mnist(files=FILES, download=True, url=server.url)
        assert len(list((nowhere / "fashion-mnist").iterdir())) == 2
        assert fashion_mnist(files=FILES, download=True, url=server.url)[3].shape == (2,)
    assert server.asked == [f"/{NAMES[i]}.gz" for i in (0, 1, 2, 2, 3)]


def test_another_file_than_the_published_is_refused(
    nowhere: Path, server: Server, quick: list[float], tmp_path: Path
) -> None:
    publish(server)
    other = bytearray(SET[NAMES[0]])
    other[-1] ^= 1
    for body, message in (
        (bytes(other), "sha256 differs"),
        (SET[NAMES[0]] + bytes(10_000_000), "has more, uncompressed, and should have 2368"),
        (SET[NAMES[0]][:-1], "has 2367 bytes"),
    ):
        server.answers[f"/{NAMES[0]}.gz"] = [gzip.compress(body, 1)]
        with pytest.raises(DataError, match=f"could not be downloaded in 3 attempts: .*{message}"):
            fashion_mnist(tmp_path / "to", files=FILES, download=True, url=server.url)
        assert list((tmp_path / "to").iterdir()) == []


def test_a_lost_connection_is_tried_again(server: Server, quick: list[float], tmp_path: Path) -> None:
    body = bytes(range(256)) * 1000
    server.answers["/x"] = [half(body), 503, body]
    download(server.url + "x", str(tmp_path / "x"), accept, pause=0.5)
    assert (tmp_path / "x").read_bytes() == body
    assert quick == [0.5, 1.0]


def test_attempts_end(server: Server, quick: list[float], tmp_path: Path) -> None:
    server.answers["/x"] = [half(b"abcdefgh")]
    with pytest.raises(DataError, match="in 2 attempts: the connection ended after 4 of 8 bytes") as caught:
        download(server.url + "x", str(tmp_path / "x"), accept, attempts=2)
    assert "network" in caught.value.hint
    assert len(server.asked) == 2 and list(tmp_path.iterdir()) == []


def test_no_file_there_is_final(server: Server, quick: list[float], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="/absent: 404 Not Found"):
        download(server.url + "absent", str(tmp_path / "x"), accept)
    assert len(server.asked) == 1 and list(tmp_path.iterdir()) == []


def test_no_server_there(quick: list[float], tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/x"
        with pytest.raises(DataError, match=r"in 3 attempts: .*refused"):
            download(url, str(tmp_path / "x"), accept)
    with pytest.raises(DataError, match="no address that can be downloaded"):
        download("file:///etc/hostname", str(tmp_path / "x"), accept)


def test_an_old_file_stays_when_a_download_fails(server: Server, quick: list[float], tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    server.answers["/x"] = [b"new"]

    def refuse(path: str) -> None:
        assert Path(path).read_bytes() == b"new"
        raise DataError("not this one")

    with pytest.raises(DataError, match="not this one"):
        download(server.url + "x", str(tmp_path / "x"), refuse)
    assert (tmp_path / "x").read_bytes() == b"old"


# ---- writing aside -----------------------------------------------------------------------------------------


def test_a_file_written_aside_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    with write_aside(str(path)) as aside:
        Path(aside).write_bytes(b"content")
        assert not path.exists() and Path(aside).parent == path.parent
    assert path.read_bytes() == b"content" and list(path.parent.iterdir()) == [path]


def test_ctrl_c_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupted() -> None:
        with write_aside(str(path)) as aside:
            Path(aside).write_bytes(b"ha")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot write to .*file"), write_aside(str(tmp_path / "file" / "x")):
        raise AssertionError("not reached")
