"""What becomes of observables.json when a state is measured again."""

from __future__ import annotations

from typing import Any

import pytest

from tnvmc.app.measure import merged


def record(n_samples: int = 64, chi: int | None = 8, **more: Any) -> dict[str, Any]:
    return {
        "n_samples": n_samples, "effective_samples": None, "chi": chi, "drawn": "chains", "seed": 0,
        "step": 10, "diagnostics": [], **more,
    }  # fmt: skip


def content(
    pairs: dict[str, Any] | None = None, operators: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """Observables whose values tell from which measurement they are."""
    mark, operators = more.pop("mark", "new"), operators or {}
    samples = more.pop("samples", record())
    names = ["SzSz", *(["SS"] if pairs else [])]
    return {
        "parameters": "ab", "step": 10, "magnetisation": 0, "symmetry": [],
        "measured": {"samples": samples, "pairs": pairs, "operators": operators},
        "correlations": dict.fromkeys(names, mark), "structure_factor": dict.fromkeys(names, mark),
        "staggered_magnetisation_squared": mark if pairs else None,
        "pair_samples": pairs["n_samples"] if pairs else 0, "pair_chi": pairs and pairs["chi"],
        "operators": dict.fromkeys(operators, mark), "diagnostics": [], **more,
    }  # fmt: skip


def test_the_first_measurement_stands_alone() -> None:
    fresh = content()
    found = merged(fresh, None)
    assert (found.content, found.unchanged, found.aside) == (fresh, (), None)


def test_what_is_not_measured_again_stays_with_how_it_was_measured() -> None:
    slow = {"code": "walkers_disagree", "status": "warning", "values": {"observable": "SS"}}
    pairs, ring = record(512, 6, diagnostics=[slow], seed=4), record(32, fingerprint="r")
    held = content(pairs, {"ring": ring}, mark="old", diagnostics=[slow])
    fresh = content(operators={"hop": record(fingerprint="h")})
    found = merged(fresh, held)
    made = found.content
    assert made["correlations"] == made["structure_factor"] == {"SzSz": "new", "SS": "old"}
    assert (made["staggered_magnetisation_squared"], made["pair_samples"]) == ("old", 512)
    assert made["pair_chi"] == 6
    assert made["operators"] == {"hop": "new", "ring": "old"}
    assert made["measured"]["pairs"] == pairs and made["measured"]["operators"]["ring"] == ring
    assert made["diagnostics"] == [slow]
    assert found.aside is None
    assert [each.values["observable"] for each in found.unchanged] == ["SS", "ring"]
    assert found.unchanged[0].values == {"observable": "SS", "n_samples": 512, "chi": 6, "seed": 4}


@pytest.mark.parametrize(
    ("old", "new", "aside"),
    [
        (record(), record(), None),
        (record(64), record(128), None),
        (record(64, None), record(64, None), None),
        (record(128), record(64), "better"),
        (record(chi=16), record(256, chi=8), "better"),
        (record(20, drawn="enumerate"), record(10**6), "better"),
        (record(10**6), record(20, drawn="enumerate"), None),
        (record(512, effective_samples=40.0), record(64), None),
        (record(64), record(512, effective_samples=40.0), "better"),
    ],
)
def test_nothing_better_is_lost(
    old: dict[str, Any], new: dict[str, Any], aside: str | None
) -> None:
    for held, fresh in (
        (content(samples=old), content(samples=new)),
        (content(pairs=old), content(pairs=new)),
        (content(operators={"ring": old}), content(operators={"ring": new})),
    ):
        found = merged(fresh, held)
        assert (found.content, found.aside) == (fresh, aside)


def test_another_operator_of_the_same_name_is_not_replaced_in_silence() -> None:
    held = content(operators={"ring": record(fingerprint="a")})
    assert merged(content(operators={"ring": record(fingerprint="b")}), held).aside == "better"


@pytest.mark.parametrize(
    ("differs", "why"),
    [
        ({"step": 11, "parameters": "cd"}, "step"),
        ({"parameters": "cd"}, "parameters"),
        ({"magnetisation": 2}, "magnetisation"),
        ({"symmetry": ["spin"]}, "symmetry"),
    ],
)
def test_other_states_are_never_mixed(differs: dict[str, Any], why: str) -> None:
    fresh, held = content(), content(record(), {"ring": record()}, mark="old", **differs)
    found = merged(fresh, held)
    assert (found.content, found.unchanged, found.aside) == (fresh, (), why)
