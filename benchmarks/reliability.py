"""What becomes of a run that is damaged, killed, or given nonsense: counted, with a seed.

    python benchmarks/reliability.py [bits] [kills] [fuzz] [--seed 0] [--bits 2000] [--kills 300]
                                     [--fuzz 1000]

bits: one bit of one file of a run is flipped, or a file is that of another run, then a command reads
it.  kills: run, measure, converge or compare is killed (the parent, a worker, all of them; at a random
moment or within a write), gone on with, and compared bit for bit with what was not.  fuzz: settings, command lines and files of a run that make
no sense.  Prints a table, writes benchmarks/results/reliability.json.  What must not be: silent (a
number that differs, without a word), traceback, untold (no reason given), crash, hang (60 s).
About an hour on one core.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import tomli_w
from kills import kills
from trials import Ended, run, warm
from workplace import BAD, SETTINGS, Workplace, outcome, plain, table_of

from tnvmc.storage.seals import unsealed_json

RESULTS = Path(__file__).parent / "results" / "reliability.json"
SCRIPTS = Path(__file__).parent.parent / "scripts"


# ------------------------------------------------------------------------------------------- bits

LONGER = ("--set", "stage.2.steps=6")
READERS: dict[str, tuple[str, ...]] = {
    "resume": ("run", "--resume", "trial"),
    "resume longer": ("run", "--resume", "trial", *LONGER),
    "show": ("show", "trial"),
    "row": ("report", "trial", "--varbench"),
    "measure": ("measure", "trial", "--n-samples", "32", "--no-pairs"),
    "converge": ("converge", "trial", "--chi", "3", "--n-samples", "16"),
    "start from it": ("run", "from.toml", "--out", "other"),
    "show a stage": ("show", "trial/stage-1.h5"),
    "start from a stage": ("run", "from_stage.toml", "--out", "other"),
    "compare": ("compare", "--resume", "trial"),
}
_OF_RUN = tuple(READERS)[:7]
FILES: dict[str, tuple[str, ...]] = {
    "checkpoint.h5": _OF_RUN,
    "history.jsonl": _OF_RUN,
    "result.json": _OF_RUN,
    "config.toml": _OF_RUN,
    "observables.json": ("show", "measure", "resume"),
    "stage-1.h5": ("show a stage", "start from a stage"),
    "comparison.toml": ("compare",),
}
"""What a run and a comparison leave that is read again, and who reads it."""
OFTEN = ("checkpoint.h5",) * 3  # most of the bits are in it


def told_by(name: str, work: Workplace, ended: Ended) -> Any:
    """What a command gave: its numbers, or what it printed."""
    folder = work.path / ("other" if name.startswith("start") else "trial")
    if name.startswith("show"):
        lines = ended.out.splitlines()
        return [line for line in lines if not line.split()[0] in ("version", "files")]
    if name == "row":
        return ended.out
    if name == "compare":
        return table_of(folder)
    if name == "measure":
        return plain(unsealed_json((folder / "observables.json").read_text()))
    return outcome(folder)


def afresh(work: Workplace, name: str) -> Path:
    """A folder for a reader, and nothing where it writes."""
    shutil.rmtree(work.path / "other", ignore_errors=True)
    return work.copy("compared" if name == "compare" else "whole")


def judged(work: Workplace, name: str, expected: Any) -> tuple[str, Ended]:
    """Let a command read what is in its folder; what became of it."""
    ended = run(READERS[name], work.path, work.logs)
    kind = ended.kind
    if kind == "ok":
        try:
            kind = "harmless" if told_by(name, work, ended) == expected else "silent"
        except (ValueError, OSError):
            kind = "silent"
    told = "DAMAGED" in ended.out or "is damaged" in ended.out
    return ("refused" if kind == "silent" and told else kind), ended


def bits(work: Workplace, count: int, rng: random.Random) -> list[tuple[str, str, str]]:
    """(file, command, outcome) of each flipped bit, and of each file of another run."""
    from_it = {**SETTINGS, "ansatz": {"D": 3, "init": "trial/checkpoint.h5"}}
    del from_it["stage"]
    from_it["optimizer"] = {"steps": 2}
    (work.path / "from.toml").write_text(tomli_w.dumps(from_it))
    from_it["ansatz"] = {"D": 3, "init": "trial/stage-1.h5"}
    (work.path / "from_stage.toml").write_text(tomli_w.dumps(from_it))
    expected = {}
    for name, arguments in READERS.items():
        afresh(work, name)
        expected[name] = told_by(name, work, work.do(*arguments))
    found = []
    for _ in range(count):
        file = rng.choice([*FILES, *OFTEN])
        name = rng.choice(FILES[file])
        folder = afresh(work, name)
        content = bytearray((folder / file).read_bytes())
        where = rng.randrange(8 * len(content))
        content[where // 8] ^= 1 << where % 8
        (folder / file).write_bytes(content)
        kind, ended = judged(work, name, expected[name])
        if kind in BAD:
            print(f"{file} bit {where}, {name}: {kind}\n{ended.out}{ended.err}")
        found.append((file, name, kind))
    return found + exchanged(work, expected)


def exchanged(work: Workplace, expected: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The same for whole files of other runs: of another coupling, of the same settings.

    A state may be the start of any run, so nobody is asked who starts from it.
    """
    found = []
    for other, (file, names) in product(("alien", "twin"), list(FILES.items())[:5]):
        for name in (name for name in names if not name.startswith("start")):
            shutil.copy(work.path / other / file, afresh(work, name) / file)
            kind, ended = judged(work, name, expected[name])
            if kind in BAD:
                print(f"{file} of {other}, {name}: {kind}\n{ended.out}{ended.err}")
            found.append((f"{file}, other run", name, kind))
    return found


# ------------------------------------------------------------------------------------------- fuzz

JUNK: list[Any] = [
    -1, 0, 1, 2, 3, 10**3, 10**6, 10**9, 10**18, 2**63, -(2**70), 0.5, -0.5, 1e-300, 1e300,
    float("nan"), float("inf"), "", "x", "heisenberg", "open", "periodic", "adam", "gradient",
    "é\u202e\x01", "a" * 300, "../..", "/dev/zero", True, False, [], [[]], [1], [2, 2], [3, 0],
    [1e9, 1], [-1, 2], ["x"], [1] * 50, {}, {"x": 1}, [{"D": 2}], [{}],
]  # fmt: skip
NAMES = (
    "heisenberg_4x4", "heisenberg_6x6", "heisenberg_8x8_grown", "j1j2_4x4", "rydberg_4x4",
    "tfim_4x4", "chain_20", "compare_heisenberg_6x6",
)  # fmt: skip


def small(name: str) -> dict[str, Any]:
    """One of the scripts, so small that it takes a second."""
    settings = tomllib.loads((SCRIPTS / f"{name}.toml").read_text())
    lattice = settings["lattice"]
    lattice["shape"] = [2, 3] if isinstance(lattice["shape"], list) else 6
    settings.setdefault("sampler", {}).update(n_walkers=4, n_samples=16)
    settings.setdefault("measure", {}).update(n_samples=32)
    settings.setdefault("run", {}).update(threads=1)
    if isinstance(settings.get("ansatz"), list):
        kinds = [each for each in settings["ansatz"] if each["kind"] in ("peps", "product")]
        settings |= {"ansatz": kinds, "compare": {"steps": 2}}
        settings["sampler"].pop("n_samples")
        settings["sampler"].pop("n_walkers")
        return settings
    if "D" in settings.get("ansatz", {}):
        settings["ansatz"]["D"] = 2
    for stage in settings.get("stage", ()):
        if stage.get("kind") != "simple_update":
            stage.update(steps=2, n_samples=16)
            stage.pop("plateau", None)
    settings.setdefault("optimizer", {})
    if "stage" not in settings:
        settings["optimizer"]["steps"] = 2
    return settings


def mutated(settings: dict[str, Any], rng: random.Random) -> str:
    """The text of settings of which something, or its spelling, was changed."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        section = rng.choice([*settings, "run", "guard", "contraction"])
        table = settings.setdefault(section, {})
        if isinstance(table, list) and table:
            table = rng.choice(table)
        known = [
            "shape", "kind", "boundary", "model", "J", "J2", "h", "V", "D", "dtype", "init", "chi",
            "scheme", "n_walkers", "n_samples", "magnetisation", "steps", "learning_rate",
            "diag_shift", "momentum", "clip", "schedule", "seconds", "plateau", "n_burn", "n_thin",
            "symmetrise", "ladder", "seed", "out", "threads", "checkpoint_every", "power",
            "n_replicas", "precision", "chunk", "window", "patience", "bonds", "device",
        ]  # fmt: skip
        how = rng.randrange(5)
        if not isinstance(table, dict) or how == 0:
            settings[section] = rng.choice(JUNK)
        elif how == 1 and table:
            table.pop(rng.choice(list(table)))
        elif how == 2 and table:
            key = rng.choice(list(table))
            table[key + rng.choice("xs_é ")] = table.pop(key)
        else:
            table[rng.choice([*table, rng.choice(known)])] = rng.choice(JUNK)
    text = tomli_w.dumps(settings)
    if rng.random() < 0.3:
        where = rng.randrange(len(text) + 1)
        text = rng.choice((
            text[:where], text[:where] + rng.choice("=[]\"'#\x00é{},.\n9") + text[where:],
            text[:where] + text[where + 1 :], text + text, text[:where] + "[" * 5000,
        ))  # fmt: skip
    return text


def config_trial(work: Workplace, rng: random.Random) -> tuple[str, Ended]:
    name = rng.choice(NAMES)
    (work.path / "fuzzed.toml").write_text(mutated(small(name), rng), errors="surrogateescape")
    verb = "compare" if name.startswith("compare") else rng.choice(("run", "run", "run", "exact"))
    out = () if verb == "exact" else ("--out", "out")
    return f"settings, {verb}", run((verb, "fuzzed.toml", *out), work.path, work.logs, 3.0)


def line_trial(work: Workplace, rng: random.Random) -> tuple[str, Ended]:
    """A command with options that fit or do not, on paths that are what they should be or not."""
    path = work.copy().parent
    odd = path / "odd"
    if not odd.exists():
        odd.mkdir()
        (odd / "loop").symlink_to("loop")
        (odd / "device").symlink_to("/dev/zero")
        (odd / "nowhere").symlink_to("absent/x")
        os.mkfifo(odd / "pipe")
        (odd / "empty").touch()
        (odd / "folder").mkdir()
    places = [
        "trial", "trial", "trial", "whole/config.toml", "study.toml", "absent", "", "odd/loop",
        "odd/device", "odd/nowhere", "odd/pipe", "odd/empty", "odd/folder", "n" * 300,
        "odd/loop/x", "/dev/null", "/proc/self/mem", "trial/checkpoint.h5", "study.toml/x", "é\udce9",
    ]  # fmt: skip
    numbers = ["-1", "0", "2", "3", "32", "1e9", "x", "", "99999999999999999999", "٣"]
    sets = [f"{s}={v}" for s in (
        "ansatz.D", "lattice.shape", "optimizer.steps", "sampler.n_walkers", "run.out", "run.seed",
        "stage.1.steps", "stage.9.steps", "x.y", "x", "hamiltonian.J", "measure.chi",
    ) for v in ("-1", "3", "x", "[", "[2,2]", "nan", "1e400", "")]  # fmt: skip
    options = {
        "run": {"--set": sets, "--out": ["other", *places], "--resume": places},
        "exact": {"--set": sets, "--sector": numbers},
        "measure": {"--n-samples": numbers, "--chi": numbers, "--pair-samples": numbers,
                    "--operator": places, "--set": sets},
        "converge": {"--chi": numbers, "--n-samples": numbers},
        "show": {},
        "plot": {"--out": ["other", *places], "--format": ["png", "x", "", "svg,png"],
                 "--what": ["energy", "x", ""], "--site": numbers},
        "report": {"--out": ["other.html", *places], "--varbench": [""]},
        "compare": {"--set": sets, "--out": places, "--resume": places},
        "settings": {},
        "walk": {},
    }  # fmt: skip
    verb = rng.choice(list(options))
    arguments = [verb]
    if rng.random() < 0.95:
        arguments.append(
            rng.choice(["study.toml"] * 5 + places if verb in ("run", "exact") else places)
        )
    for _ in range(rng.randrange(3)):
        if options[verb]:
            option = rng.choice(list(options[verb]))
            arguments += [option, rng.choice(options[verb][option])]
    if rng.random() < 0.1:
        arguments.insert(
            rng.randrange(len(arguments) + 1), rng.choice(["--", "-x", "--help", *numbers])
        )
    return f"command line, {verb}", run(arguments, work.path, work.logs, 3.0)


def file_trial(work: Workplace, rng: random.Random) -> tuple[str, Ended]:
    """A file of a run that is something else."""
    folder = work.copy()
    names = ["checkpoint.h5", "history.jsonl", "result.json", "config.toml", "observables.json",
             "stage-1.h5"]  # fmt: skip
    name = rng.choice(names)
    path, how = folder / name, rng.randrange(12)
    kept = path.read_bytes()
    path.unlink()
    if how == 0:
        path.mkdir()
    elif how == 1:
        os.mkfifo(path)
    elif how == 2:
        path.symlink_to(rng.choice((name, "/dev/zero", "/dev/null", f"../whole/{name}", "absent")))
    elif how == 3:
        lines = kept.splitlines(keepends=True)
        rng.shuffle(lines)
        path.write_bytes(b"".join(lines))
    elif how == 4:
        path.write_bytes(kept[: rng.randrange(len(kept))])
    elif how == 5:
        path.write_bytes(kept + kept)
    elif how == 6:
        shutil.copy(folder / rng.choice([each for each in names if each != name]), path)
    elif how == 7:
        path.write_bytes(rng.randbytes(rng.randrange(2000)))
    elif how in (8, 9):
        texts = ("null", "[]", "{}", "[1]", '{"energy": null}', '{"step": null}\n', "[" * 9999, "1e999",
                 '{"step": 0}\n', '"x"', "")  # fmt: skip
        path.write_text(rng.choice(texts))
    elif how == 10:
        shutil.copy(work.path / rng.choice(("alien", "twin")) / name, path)
    readers = [arguments for reader, arguments in READERS.items() if reader in _OF_RUN[:6]]
    verbs = [*readers, ("plot", "trial", "--format", "svg"), ("report", "trial")]
    return f"file, {name}", run(rng.choice(verbs), work.path, work.logs, 3.0)


def fuzz(work: Workplace, count: int, rng: random.Random) -> list[tuple[str, str, str]]:
    """(what, "", outcome) of each trial; what stood there before stays as it is."""
    kept = {path: path.read_bytes() for path in work.path.glob("whole/*") if path.is_file()}
    kept |= {path: path.read_bytes() for path in (work.path / "study.toml",)}
    found = []
    for _ in range(count):
        for name in ("out", "other"):
            shutil.rmtree(work.path / name, ignore_errors=True)
        trial = rng.choices((config_trial, line_trial, file_trial), (5, 3, 2))[0]
        what, ended = trial(work, rng)
        kind = ended.kind
        if {path: path.read_bytes() for path in kept} != kept:
            kind = "silent"
        if kind in BAD:
            print(f"{what}: {kind} {ended}")
            if what.startswith("settings"):
                print((work.path / "fuzzed.toml").read_text(errors="replace"))
        found.append((what.split(",")[0], what.split(", ")[1], kind))
    return found


# ------------------------------------------------------------------------------------------ report

PARTS: dict[str, Any] = {"bits": bits, "kills": kills, "fuzz": fuzz}


def table(found: list[tuple[str, str, str]]) -> tuple[list[dict[str, Any]], str]:
    """Counts of outcomes by the first word of a row, as data and as text."""
    outcomes = sorted(
        {kind for *_, kind in found} | set(BAD[:5]), key=lambda kind: (kind in BAD, kind)
    )
    rows, lines = [], [f"{'':24}" + "".join(f"{kind:>12}" for kind in (*outcomes, "all"))]
    for first in [*dict.fromkeys(first for first, *_ in found), "all"]:
        counts = Counter(kind for name, _, kind in found if first in (name, "all"))
        rows.append({"what": first, **{kind: counts[kind] for kind in outcomes}})
        numbers = (*(counts[kind] for kind in outcomes), counts.total())
        lines.append(f"{first:24}" + "".join(f"{number:>12}" for number in numbers))
    return rows, "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="bits, kills, fuzz (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    for name, count in (("bits", 2000), ("kills", 300), ("fuzz", 1000)):
        parser.add_argument(f"--{name}", type=int, default=count, metavar="N")
    options = parser.parse_args()
    warm()
    bad = 0
    for name in options.parts or PARTS:
        count, began = getattr(options, name), time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            work = Workplace(Path(folder))
            found = PARTS[name](work, count, random.Random(f"{options.seed} {name}"))
        rows, text = table(found)
        seconds = time.monotonic() - began
        print(f"\n{name}: {count} trials, seed {options.seed}, {seconds:.0f} s\n{text}", flush=True)
        pairs = Counter(found)
        written = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        written[name] = {
            "seed": options.seed, "trials": count, "seconds": round(seconds), "rows": rows,
            "by": [[*pair, number] for pair, number in sorted(pairs.items())],
        }  # fmt: skip
        bad += sum(kind in (*BAD, "lost", "leftovers") for *_, kind in found)
        RESULTS.write_text(json.dumps(written, indent=1) + "\n")
    print(f"\n{bad} that must not be")
    raise SystemExit(bool(bad))


if __name__ == "__main__":
    main()
