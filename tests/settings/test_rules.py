"""Keys of [ansatz] that a kind does not take, and settings that do not go together."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tests.settings.complaints import problems, told
from tnvmc.series.machine import SECTORS
from tnvmc.settings import rules
from tnvmc.settings.build import build_ansatz, build_sampler
from tnvmc.settings.config import build_operator
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate, with_overrides
from tnvmc.settings.problems import ConfigError
from tnvmc.settings.rules import check_symmetries


def data(
    kind: str, model: str = "heisenberg", lattice: dict[str, Any] | None = None
) -> dict[str, Any]:
    ansatz = {"kind": kind} | ({"D": 2} if kind == "peps" else {})
    return {
        "lattice": lattice or {"shape": [4, 4]},
        "hamiltonian": {"model": model},
        "ansatz": ansatz,
    }


@pytest.mark.parametrize(
    ("kind", "override", "found"),
    [
        ("vit", "ansatz.alpha=2", ("ansatz.alpha", "foreign_key")),
        ("peps", "ansatz.heads=2", ("ansatz.heads", "foreign_key")),
        ("vit", "ansatz.features=[3]", ("ansatz.features", "foreign_key")),
        ("cnn", "ansatz.D=4", ("ansatz.D", "foreign_key")),
        ("vit", "ansatz.haeds=2", ("ansatz.haeds", "unknown_key")),
        ("vit", "ansatz.heads=2.5", ("ansatz.heads", "not_allowed", 2.5)),
        ("vit", "ansatz.patch=[2]", ("ansatz.patch", "not_allowed", [2])),
        ("vit", "ansatz.attention=softmax", ("ansatz.attention", "not_allowed", "softmax")),
        ("rbm", "ansatz.dtype='complex'", ("ansatz.dtype", "not_allowed", "complex")),
        ("cnn", "ansatz.dtype=float32", ("ansatz.dtype", "not_allowed", "float32")),
        ("cnn", "contraction.chi=4", ("contraction.chi", "conflict")),
        ("cnn", "contraction.scheme=src", ("contraction.scheme", "conflict")),
        ("cnn", "measure.chi=4", ("measure.chi", "conflict")),
        ("cnn", "sampler.kind=direct", ("sampler.kind", "conflict", "direct")),
        ("product", "contraction.chi=4", ("contraction.chi", "conflict")),
        ("product", "ansatz.D=2", ("ansatz.D", "foreign_key")),
        ("rnn", "ansatz.init=simple_update", ("ansatz.init", "not_allowed", "simple_update")),
        ("rnn", "ansatz.magnetisation=2", ("ansatz.magnetisation", "unknown_key")),
        ("rnn", "ansatz.average=['turn']", ("ansatz.average", "not_allowed", ["turn"])),
    ],
)
def test_what_a_kind_does_not_take(kind: str, override: str, found: tuple[Any, ...]) -> None:
    assert told(data(kind), [override]) == [found]


def test_the_keys_that_a_kind_takes_are_told() -> None:
    (found,) = problems(data("vit"), ["ansatz.alpha=2"])
    assert {"width", "heads", "average"} <= set(found.allowed.replace(",", "").split())


def test_chains_only() -> None:
    change = ["sampler.power=0.5"]
    assert told(data("rnn"), change) == [("sampler.power", "conflict", 0.5)]
    for kind in ("rbm", "peps"):
        settings = complete(validate(data(kind), change))
        assert build_sampler(settings, build_operator(settings)).power == 0.5


@pytest.mark.parametrize(
    "changes",
    [
        ["optimizer.learning_rate=0.1"],
        ["optimizer.final_learning_rate=0.01"],
        ["optimizer.kind=adam"],
        ["sampler.kind=enumerate"],
    ],
)
def test_samples_grow_with_draws_and_a_rate_that_follows(changes: list[str]) -> None:
    changes = ["sampler.n_samples=auto", *changes]
    assert told(data("peps"), changes) == [("sampler.n_samples", "conflict", "auto")]


def test_samples_that_grow_are_measured_by_the_usual_number() -> None:
    found = complete(validate(data("peps"), ["sampler.n_samples=auto"]))
    assert (found.sampler.n_samples, found.measure.n_samples) == ("auto", 4096)


def test_samples_grow_in_stages_whose_rate_follows() -> None:
    stages = [{"steps": 3}, {"steps": 3, "learning_rate": 0.1}]
    settings = data("peps") | {"stage": stages, "sampler": {"n_samples": "auto"}}
    assert told(settings, []) == [("stage.2.n_samples", "conflict", "auto")]
    stages[1]["n_samples"] = 256
    assert [each.n_samples for each in complete(validate(settings)).stage or ()] == ["auto", 256]


def test_a_stage_is_told_that_samples_of_draws_alone_grow() -> None:
    settings = data("peps") | {"stage": [{"steps": 3, "n_samples": "auto"}]}
    complete(validate(settings, ["sampler.kind=direct"]))
    (found,) = problems(settings, ["sampler.kind=enumerate"])
    assert found.key == "stage.1.n_samples"


@pytest.mark.parametrize("change", ["kind=enumerate", "kind=direct"])
def test_a_power_that_follows_goes_with_everything(change: str) -> None:
    """It stands in every completed file, of which a key may be changed; see `Sampler.power`."""
    settings = complete(validate(data("peps"), ["sampler.power=auto", f"sampler.{change}"]))
    assert settings.sampler.power == "auto"
    build_sampler(settings, build_operator(settings))


def test_sectors_that_clash() -> None:
    found = told(data("rnn", "tfim"), ["sampler.magnetisation=2"])
    assert found == [("sampler.magnetisation", "conflict", 2)]
    found = told(data("rbm"), ["ansatz.average=['spin']", "sampler.magnetisation=2"])
    assert found == [("ansatz.average", "conflict")]


def test_no_draws_from_the_inverted_sector() -> None:
    sector = ["sampler.magnetisation=2", "ansatz.average=['spin']", "ansatz.marshall=true"]
    assert told(data("rnn"), sector) == [("ansatz.average", "conflict")]


@pytest.mark.parametrize(
    ("stage", "found"),
    [({"D": 2}, ("stage.1.D", "conflict", 2)), ({"chi": 8}, ("stage.1.chi", "conflict"))],
)
def test_stages_that_a_network_cannot_have(stage: dict[str, Any], found: tuple[Any, ...]) -> None:
    assert told({**data("vit"), "stage": [stage]}) == [found]


RING: dict[str, Any] = {"kind": "chain", "shape": 10, "boundary": "periodic"}


@pytest.mark.parametrize(
    ("lattice", "name", "kind", "element"),
    [
        ({"shape": [2, 3]}, "point", "rbm", "up-down reflection"),
        ({"shape": [2, 3]}, "spin", "rnn", "spin inversion"),
        (RING, "translation", "cnn", "translation by (0, 1)"),
    ],
)
def test_an_average_that_loses_the_ground_state_is_refused(
    lattice: dict[str, Any], name: str, kind: str, element: str
) -> None:
    changes = [f"ansatz.average=['{name}']", "ansatz.marshall=false"]
    settings = complete(validate(data(kind, lattice=lattice), changes))
    with pytest.raises(ValueError) as caught:
        build_ansatz(settings, build_operator(settings))
    assert str(caught.value).startswith("ansatz.average: ")
    assert element in str(caught.value) and "ansatz.marshall = true" in str(caught.value)


def test_a_symmetrised_state_is_not_drawn() -> None:
    """Nor drawn by `tnvmc measure --direct`."""
    symmetrise = "measure.symmetrise=['spin']"
    found = told(data("peps"), [symmetrise, "sampler.kind=direct"])
    assert found == [("measure.symmetrise", "conflict")]
    settings = complete(validate(data("peps"), [symmetrise]))
    operator = build_operator(settings)
    check_symmetries(settings, operator)
    with pytest.raises(ConfigError, match="^measure.symmetrise: .*--direct"):
        check_symmetries(settings, operator, direct=True)


def test_tensors_are_shared_by_the_lowest_state_alone() -> None:
    """An excited state need not have the symmetries that its tensors would give it."""
    kept = {"orthogonal": [{"run": "runs/ground"}]}
    found = told({**data("peps"), **kept}, ["ansatz.sharing=true"])
    assert found == [("ansatz.sharing", "conflict", True)]
    assert validate({**data("peps"), **kept}, ["ansatz.sharing=false"]).orthogonal
    for key in ("sharing=true", "average=['translation']"):
        found = told({**data("rbm"), **kept}, [f"ansatz.{key}", "lattice.boundary=periodic"])
        assert [each[:2] for each in found] == [(f"ansatz.{key.partition('=')[0]}", "conflict")]
    sectors = {**data("peps"), "sector": [{"name": "a"}, {"name": "b", "orthogonal_to": ["a"]}]}
    with pytest.raises(ConfigError) as caught:
        SECTORS.expand(with_overrides(sectors, ["ansatz.sharing=true"]), "sectors")
    assert [p.key for p in caught.value.problems] == ["sector 'b': ansatz.sharing"]
    runs = SECTORS.expand(with_overrides(sectors, ["ansatz.D=3"]), "sectors").runs
    assert [run.ansatz.sharing for run in runs.values()] == [True, False]


def test_what_has_no_effect_is_refused() -> None:
    for value in (0, 2):
        found = told(data("peps", "tfim"), [f"sampler.magnetisation={value}"])
        assert found == [("sampler.magnetisation", "conflict", value)]
    for shape, value in (("[3,3]", 0), ("[2,3]", 3), ("[2,3]", 8)):
        found = told(data("peps"), [f"lattice.shape={shape}", f"sampler.magnetisation={value}"])
        assert found == [("sampler.magnetisation", "conflict", value)]
    exact = ["contraction.scheme=exact", "contraction.chi=4"]
    assert told(data("peps"), exact) == [("contraction.chi", "conflict", 4)]
    grows = ["contraction.scheme=exact", "contraction.chi=auto"]
    assert told(data("peps"), grows) == [("contraction.chi", "conflict", "auto")]
    found = told(data("mps"), ["contraction.chi=auto", "lattice.shape=[1,6]"])
    assert found == [("contraction.chi", "conflict", "auto")]
    assert validate(data("peps"), ["contraction.chi=auto", "sampler.kind=enumerate"])


def test_a_peps_needs_rows_and_columns() -> None:
    across = [[0, 1], [1, 2], [3, 4], [4, 5], [0, 3], [1, 4], [2, 5]]
    bonds: dict[str, Any] = {"kind": "bonds", "shape": 6, "bonds": across}
    assert told(data("peps", lattice=bonds)) == [("lattice.shape", "conflict", 6)]
    assert told(data("peps", lattice=bonds | {"shape": [6]})) == [
        ("lattice.shape", "conflict", [6])
    ]
    for right in ({"shape": [2, 3]}, {"bonds": [[0, 1], [1, 2], [0, 5]]}):
        assert complete(validate(data("peps", lattice=bonds | right)))
    assert complete(validate(data("rbm", lattice=bonds)))


@pytest.mark.parametrize(("model", "sector"), [("heisenberg", 0), ("tfim", None)])
def test_sector_and_type_follow_the_hamiltonian(model: str, sector: int | None) -> None:
    found = complete(validate(data("peps", model)))
    assert (found.sampler.magnetisation, found.ansatz.dtype) == (sector, "float64")
    assert complete(found) == found


@pytest.mark.parametrize(
    "lattice",
    [
        {"shape": [4, 4]},
        {"shape": [4, 4], "boundary": "periodic"},
        {"shape": [4, 2], "boundary": "cylinder"},
        {"kind": "chain", "shape": 8, "boundary": "periodic"},
    ],
)
def test_periodic_bonds_need_rings(lattice: dict[str, Any]) -> None:
    changes = ["ansatz.bonds=periodic"]
    asked = complete(validate(data("peps", lattice=lattice), changes))
    with pytest.raises(ValueError, match="bonds = 'periodic'"):
        build_ansatz(asked, build_operator(asked))
    fitting = data("peps", lattice={"shape": [4, 3], "boundary": "cylinder"})
    chosen = complete(validate(fitting, changes))
    ansatz: Any = build_ansatz(chosen, build_operator(chosen))
    assert ansatz.bonds == "periodic"


KAGOME = {"kind": "kagome", "shape": [4, 4]}
PAIR = {"kind": "product_of_states", "first": {"kind": "rbm"}}


@pytest.mark.parametrize("kind", ["cnn", "vit", "patched_transformer", "rnn"])
def test_what_reads_the_whole_grid_is_told_so(kind: str) -> None:
    pytest.importorskip("flax")
    for ansatz in ({"kind": kind}, {**PAIR, "second": {"kind": kind}}):
        settings = complete(validate({**data(kind, lattice=KAGOME), "ansatz": ansatz}))
        with pytest.raises(ValueError, match="reads the whole grid"):
            build_ansatz(settings, build_operator(settings))


@pytest.mark.whole
@pytest.mark.parametrize(
    ("limit", "shape", "D", "kind", "fits"),
    [
        (16 * 2 * 6**4 * 8, [4, 4], 6, "peps", True),
        (16 * 2 * 6**4 * 8 - 1, [4, 4], 6, "peps", False),
        (8 * 2 * 6**2 * 8 * 2, [1, 8], 6, "peps", True),
        (1000, [4, 4], None, "rbm", False),
    ],
)
def test_what_does_not_fit_into_memory_is_refused_before_it_begins(
    limit: int,
    shape: list[int],
    D: int | None,
    kind: str,
    fits: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rules, "memory_limit", lambda: float(limit))
    ansatz = {"kind": kind} | ({"D": D} if D else {})
    settings = complete(validate({**data(kind), "lattice": {"shape": shape}, "ansatz": ansatz}))
    operator = build_operator(settings)
    n_params = build_ansatz(settings, operator).n_params
    with contextlib.nullcontext() if fits else pytest.raises(ConfigError, match="memory"):
        rules.check_memory(settings, n_params, 2)


TV = {"model": "tv"}
WRONG_PARTICLES: list[tuple[dict[str, Any], list[str], tuple[Any, ...]]] = [
    (TV, [], ("sampler.particles", "conflict")),
    (TV, ["sampler.particles=17"], ("sampler.particles", "conflict", 17)),
    (TV, ["sampler.particles=[2, 2]"], ("sampler.particles", "conflict", [2, 2])),
    (TV, ["sampler.particles=-1"], ("sampler.particles", "not_allowed", -1)),
    ({"model": "hubbard"}, ["sampler.particles=4"], ("sampler.particles", "conflict", 4)),
    ({"model": "tj"}, ["sampler.particles=[9, 9]"], ("sampler.particles", "conflict", [9, 9])),
    ({"model": "heisenberg"}, ["sampler.particles=8"], ("sampler.particles", "conflict", 8)),
    (TV, ["sampler.particles=8", "sampler.magnetisation=0"], ("sampler.magnetisation", "conflict", 0)),
    (TV, ["sampler.particles=8", "sampler.kind=direct"], ("sampler.kind", "conflict")),
]  # fmt: skip


@pytest.mark.parametrize(("model", "overrides", "found"), WRONG_PARTICLES)
def test_particles_go_with_the_hamiltonian(
    model: dict[str, Any], overrides: list[str], found: tuple[Any, ...]
) -> None:
    assert told(
        {**data("rnn" if "sampler.kind=direct" in overrides else "rbm"), "hamiltonian": model},
        overrides,
    ) == [found]


def test_fermions_of_terms() -> None:
    hop = {"ops": "c^ c - c c^", "bonds": "nearest", "coupling": -1.0}
    terms = {
        "model": "terms",
        "fermions": "spinless",
        "term": [hop, {"ops": "n n", "bonds": "nearest", "coupling": 2.0}],
    }
    given = {"lattice": {"shape": [2, 3]}, "ansatz": {"kind": "rbm"}, "sampler": {"particles": 3}}
    operators = [
        build_operator(complete(validate({**given, "hamiltonian": hamiltonian})))
        for hamiltonian in (terms, {"model": "tv", "V": 2.0})
    ]
    one, other = (each.sparse(each.magnetisation) for each in operators)
    assert abs(one - other).max() == 0
    pairs = [{"ops": "c^ c^ - c c", "bonds": [[0, 1]]}]
    pairing = {"model": "terms", "fermions": "spinless", "term": [hop, *pairs]}
    assert told({**given, "hamiltonian": pairing}) == [("sampler.particles", "conflict", 3)]
