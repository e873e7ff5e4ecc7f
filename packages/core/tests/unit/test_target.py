"""The grammar of DEV and of device strings: round trips, errors with carets, hints."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiny_core.errors import DeviceError, TargetError
from tiny_core.plugins.target import Target, parse_dev, parse_device
from tiny_core.render.renderer import Arch

TOKENS = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,6}", fullmatch=True)
FEATURES = st.from_regex(r"[A-Za-z0-9_.][A-Za-z0-9_.\-]{0,6}", fullmatch=True)
KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.\-]{0,6}", fullmatch=True)
VALUES = st.text(st.characters(codec="utf-8", exclude_characters=",;"), min_size=1, max_size=6).filter(
    lambda v: v.isprintable() and v == v.strip()
)
TARGETS = st.builds(
    Target,
    device=TOKENS,
    renderer=st.just("") | TOKENS,
    arch=st.just("") | st.from_regex(r"[A-Za-z0-9_.\-]{1,8}", fullmatch=True),
    features=st.dictionaries(FEATURES, st.booleans(), max_size=3).map(lambda d: tuple(d.items())),
    options=st.dictionaries(KEYS, VALUES, max_size=3).map(lambda d: tuple(d.items())),
    iface=st.just("") | TOKENS,
    indices=st.lists(st.integers(0, 10**9 - 1), unique=True, max_size=3).map(tuple),
)


@given(TARGETS)
def test_parse_inverts_str(target: Target) -> None:
    assert Target.parse(str(target)) == target


@settings(max_examples=40)
@given(st.lists(TARGETS, min_size=1, max_size=3, unique_by=lambda t: t.device))
def test_a_list_of_targets_round_trips(targets: list[Target]) -> None:
    assert parse_dev(" ; ".join(map(str, targets))) == tuple(targets)


@given(st.text(st.sampled_from("aA1:,;+-=_. $é"), max_size=12))
def test_any_text_parses_to_something_stable_or_is_a_target_error(text: str) -> None:
    try:
        targets = parse_dev(text)
    except TargetError:
        return
    assert parse_dev(";".join(map(str, targets))) == targets


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("AMD", Target("AMD")),
        ("AMD:LLVM:gfx942", Target("AMD", "LLVM", "gfx942")),
        ("AMD::gfx950", Target("AMD", arch="gfx950")),
        ("PCI+NV:PTX:sm_90a", Target("NV", "PTX", "sm_90a", iface="PCI")),
        (
            "MOCK+AMD:LLVM:gfx942,waves=4",
            Target("AMD", "LLVM", "gfx942", options=(("waves", "4"),), iface="MOCK"),
        ),
        ("NULL:PTX:sm_80", Target("NULL", "PTX", "sm_80")),
        (
            "CPU:LLVM:x86_64,znver2,-avx512f,threads=8",
            Target("CPU", "LLVM", "x86_64", (("znver2", True), ("avx512f", False)), (("threads", "8"),)),
        ),
        (":0,2+AMD", Target("AMD", indices=(0, 2))),
        ("KFD:1+AMD", Target("AMD", iface="KFD", indices=(1,))),
        ("cpu:llvm", Target("CPU", "LLVM")),
        ("CPU,flags=a+b=c", Target("CPU", options=(("flags", "a+b=c"),))),
        ("AMD::", Target("AMD")),
    ],
)
def test_examples(text: str, target: Target) -> None:
    assert Target.parse(text) == target


def test_order_of_features_does_not_matter() -> None:
    assert Target.parse("CPU,b,-a") == Target.parse("CPU,-a,b")


def test_blank_text_is_no_target() -> None:
    assert parse_dev("  ") == ()


def caret_column(error: TargetError) -> int:
    lines = error.message.splitlines()
    return next(line.index("^") for line in lines if line.strip() == "^") - 4


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("AMD:LLVM:gfx$", 12, "unexpected '$'"),
        ("AMD:LL VM", 6, "unexpected ' '"),
        ("1X+AMD", 0, "unexpected '1' in the interface"),
        ("KFD:x+AMD", 4, "unexpected 'x' in the device index"),
        (":0,0+AMD", 3, "given twice"),
        ("+AMD", 0, "missing before '+'"),
        ("KFD+PCI+AMD", 7, "unexpected '+'"),
        ("CPU,", 4, "feature is missing"),
        ("CPU,a,a", 6, "given twice"),
        ("CPU,k=1,k=2", 8, "given twice"),
        ("CPU,-k=1", 4, "key=value"),
        ("CPU,k=", 6, "value is missing"),
        ("AMD:LLVM:gfx90a:xnack", 15, "unexpected ':'"),
        (":LLVM", 0, "unexpected ':'"),
        ("CPU;", 4, "device is missing"),
        ("CPU; NV:$", 8, "unexpected '$'"),
        ("CPU;cpu:C", 4, "configured twice"),
    ],
)
def test_errors_point_at_the_character(text: str, column: int, message: str) -> None:
    with pytest.raises(TargetError, match="target") as caught:
        parse_dev(text)
    assert message in caught.value.message
    assert caret_column(caught.value) == column


def test_errors_show_what_was_read() -> None:
    with pytest.raises(TargetError, match="read so far: interface PCI, device NV, renderer PTX"):
        parse_dev("PCI+NV:PTX:$")


def test_a_device_index_in_dev_is_refused_with_the_right_spelling() -> None:
    with pytest.raises(TargetError) as caught:
        Target.parse("AMD:1")
    assert ":1+AMD" in caught.value.hint


def test_a_list_is_not_one_target() -> None:
    with pytest.raises(TargetError, match="not a list"):
        Target.parse("CPU;NV")


@pytest.mark.parametrize(
    "bad",
    [
        {"device": ""},
        {"device": "9"},
        {"device": "A", "arch": "a:b"},
        {"device": "A", "features": (("-x", True),)},
        {"device": "A", "options": (("k", " v"),)},
        {"device": "A", "options": (("k", "a,b"),)},
        {"device": "A", "indices": (1, 1)},
        {"device": "A", "indices": (-1,)},
    ],
)
def test_a_target_that_could_not_be_written_cannot_be_made(bad: dict[str, object]) -> None:
    with pytest.raises(TargetError):
        Target(**bad)  # type: ignore[arg-type]  # wrong on purpose


def test_to_arch_keeps_what_code_depends_on() -> None:
    arch = Target.parse("CPU:LLVM:x86_64,znver2,-avx512f,threads=8").to_arch()
    assert arch == Arch("x86_64", (("avx512f", False), ("znver2", True)))


def test_error_points_at_a_part() -> None:
    target = Target.parse("MOCK:3+AMD:LLVM:gfx1,waves=4,-xnack")
    for part, text in [
        ("iface", "MOCK"),
        ("device", "AMD"),
        ("arch", "gfx1"),
        ("xnack", "xnack"),
        ("waves", "waves"),
    ]:
        assert caret_column(target.error(part, "no")) == str(target).index(text)


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("CPU", ("CPU", 0)),
        ("cpu:1", ("CPU", 1)),
        ("DISK:/tmp/x:y", ("DISK", "/tmp/x:y")),
        ("disk:7", ("DISK", "7")),
    ],
)
def test_device_strings(text: str, device: tuple[str, int | str]) -> None:
    assert parse_device(text) == device


@pytest.mark.parametrize("text", ["", "1", "CPU:", "CPU:x", "CPU:-1", "DISK", "DISK:", "C PU"])
def test_bad_device_strings(text: str) -> None:
    with pytest.raises(DeviceError):
        parse_device(text)


def test_unknown_devices_get_close_matches() -> None:
    with pytest.raises(DeviceError) as caught:
        parse_device("PYTHN:1")
    assert "PYTHON" in caught.value.hint


def test_a_renderer_in_a_device_string_leads_to_dev() -> None:
    with pytest.raises(DeviceError) as caught:
        parse_device("CPU:LLVM")
    assert "DEV=CPU:LLVM" in caught.value.hint
