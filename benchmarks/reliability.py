"""What becomes of a run that is damaged, killed, or given nonsense: counted, with a seed.

    python benchmarks/reliability.py [bits] [kills] [fuzz] [--seed 0] [--bits 2000] [--kills 300]
                                     [--fuzz 1000]

bits: one bit of one file of a run is flipped, then a command reads it.  kills: a run is killed
(the parent, a worker, all of them; at a random moment or within a write), then resumed and compared
bit for bit with the run that was not.  fuzz: settings, command lines and files of a run that make
no sense.  Prints a table, writes benchmarks/results/reliability.json.  What must not be: silent (a
number that differs, without a word), traceback, untold (no reason given), crash, hang (60 s).
About 40 minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import tomli_w
from trials import Ended, awaited, command, forked, run, warm

from tnvmc.storage.hdf5 import read_parameters
from tnvmc.storage.seals import read_lines, unsealed_json

RESULTS = Path(__file__).parent / "results" / "reliability.json"
SCRIPTS = Path(__file__).parent.parent / "scripts"
BAD = ("silent", "traceback", "untold", "crash", "hang", "worker left")

SETTINGS: dict[str, Any] = {
    "lattice": {"shape": [2, 2]},
    "hamiltonian": {"model": "heisenberg"},
    "ansatz": {"D": 2, "init": "random"},
    "sampler": {"n_walkers": 4, "n_samples": 8, "chunk": 2, "n_thin": 1, "n_burn": 1},
    "optimizer": {"momentum": 0.5},
    "measure": {"n_samples": 16, "n_burn": 1, "chi": 4, "ladder": False},
    "run": {"threads": 1, "checkpoint_every": 2},
    "stage": [{"steps": 3}, {"steps": 4, "D": 3, "evolve": 1}],
}
TIMES = ("seconds", "seconds_per_sample", "wall_time_s", "config", "version")


def plain(value: Any) -> Any:
    """A value without times and places."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if key not in TIMES}
    return [plain(each) for each in value] if isinstance(value, list) else value


def outcome(folder: Path) -> Any:
    """All that two equal runs share; raises ValueError where a file was changed."""
    _, theta = read_parameters(folder / "checkpoint.h5")
    lines = read_lines((folder / "history.jsonl").read_bytes())
    result = unsealed_json((folder / "result.json").read_text())
    return theta.tobytes(), plain(list(lines.records)), plain(result)


class Workplace:
    """A folder for trials: a finished run to start from, a copy for each trial."""

    def __init__(self, path: Path) -> None:
        self.path, self.logs = path, path / "logs"
        self.logs.mkdir()
        (path / "study.toml").write_text(tomli_w.dumps(SETTINGS))
        self.do("run", "study.toml", "--out", "whole")
        self.do("measure", "whole", "--n-samples", "32")

    def do(self, *arguments: str) -> Ended:
        ended = run(arguments, self.path, self.logs)
        assert ended.kind == "ok", ended
        return ended

    def copy(self) -> Path:
        folder = self.path / "trial"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.path / "whole", folder, symlinks=True)
        return folder


# ------------------------------------------------------------------------------------------- bits

LONGER = ("--set", "stage.2.steps=6")
READERS: dict[str, tuple[str, ...]] = {
    "resume": ("run", "--resume", "trial"),
    "resume longer": ("run", "--resume", "trial", *LONGER),
    "show": ("show", "trial"),
    "measure": ("measure", "trial", "--n-samples", "32", "--no-pairs"),
    "converge": ("converge", "trial", "--chi", "3", "--n-samples", "16"),
    "start from it": ("run", "from.toml", "--out", "other"),
}


def told_by(name: str, work: Workplace, ended: Ended) -> Any:
    """What a command gave: its numbers, or what it printed."""
    folder = work.path / ("other" if name == "start from it" else "trial")
    if name == "show":
        lines = ended.out.splitlines()
        return [line for line in lines if not line.split()[0] in ("version", "files")]
    if name == "measure":
        return plain(unsealed_json((folder / "observables.json").read_text()))
    return outcome(folder)


def bits(work: Workplace, count: int, rng: random.Random) -> list[tuple[str, str, str]]:
    """(file, command, outcome) of each flipped bit."""
    from_it = {**SETTINGS, "ansatz": {"D": 3, "init": "trial/checkpoint.h5"}}
    del from_it["stage"]
    from_it["optimizer"] = {"steps": 2}
    (work.path / "from.toml").write_text(tomli_w.dumps(from_it))
    expected = {}
    for name, arguments in READERS.items():
        work.copy()
        shutil.rmtree(work.path / "other", ignore_errors=True)
        expected[name] = told_by(name, work, work.do(*arguments))
    files = ["checkpoint.h5"] * 6 + [
        "history.jsonl",
        "result.json",
        "config.toml",
        "observables.json",
    ]
    found = []
    for _ in range(count):
        file, name = rng.choice(files), rng.choice(list(READERS))
        folder = work.copy()
        shutil.rmtree(work.path / "other", ignore_errors=True)
        content = bytearray((folder / file).read_bytes())
        where = rng.randrange(8 * len(content))
        content[where // 8] ^= 1 << where % 8
        (folder / file).write_bytes(content)
        ended = run(READERS[name], work.path, work.logs)
        kind = ended.kind
        if kind == "ok":
            try:
                kind = "harmless" if told_by(name, work, ended) == expected[name] else "silent"
            except (ValueError, OSError):
                kind = "silent"
        if kind == "silent" and name == "show" and "DAMAGED" in ended.out:
            kind = "refused"
        if kind in BAD:
            print(f"{file} bit {where}, {name}: {kind}\n{ended.out}{ended.err}")
        found.append((file, name, kind))
    return found


# ------------------------------------------------------------------------------------------ kills


def dying_at(n: int, part: float) -> Callable[[], int]:
    """The run, in which the n-th of all writes, syncs and renames is the last thing that happens.

    `part` of what a write is given reaches the file; a rename or a sync happens if it is over 1/2.
    """

    counted = 0

    def wrapped(call: Callable[..., Any], cut: bool) -> Callable[..., Any]:
        def counting(*arguments: Any, **options: Any) -> Any:
            nonlocal counted
            counted += 1
            if counted == n:
                if cut:
                    content = bytes(arguments[-1])
                    call(*arguments[:-1], content[: int(part * len(content))])
                    getattr(arguments[0], "flush", lambda: None)()
                elif part > 0.5:
                    call(*arguments, **options)
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return counting

    class Dying:
        def __init__(self, file: Any) -> None:
            self._file = file
            self.write = wrapped(file.write, cut=True)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *what: object) -> None:
            self._file.close()

    def opening(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        file = open(path, mode, *arguments, **options)  # noqa: SIM115
        return Dying(file) if set("wa+") & set(mode) and "b" in mode else file

    def body() -> int:
        from tnvmc.storage import files, run_folder

        for name in ("fsync", "replace", "mkdir"):
            setattr(os, name, wrapped(getattr(os, name), cut=False))
        files.open = run_folder.open = opening  # type: ignore[attr-defined]
        return command("run", "study.toml", "--out", "trial")()

    return body


def writes_of_a_run(work: Workplace) -> int:
    """Number of places at which `dying_at` can end the run."""
    low, high = 1, 2
    while _survives(work, high) is False:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _survives(work, middle) else (middle, high)
    return low


def _survives(work: Workplace, n: int) -> bool:
    shutil.rmtree(work.path / "trial", ignore_errors=True)
    pid = forked(dying_at(n, 1.0), work.path, work.logs)
    return awaited(pid, work.logs).kind == "ok"


def members(session: int) -> list[int]:
    """Processes of a session that live, by /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def finish(work: Workplace) -> tuple[str, list[Ended]]:
    """Resume a killed run, or start it again where that is what is told, and compare."""
    ends = []
    for _ in range(2):
        folder = work.path / "trial"
        held = folder / "config.toml"
        resume = ("run", "--resume", "trial", "--set", "run.threads=1")
        ended = run(resume, work.path, work.logs)
        if ended.kind == "refused" and not held.exists():
            ended = run(("run", "study.toml", "--out", "trial"), work.path, work.logs)
        ends.append(ended)
        if ended.kind != "ok":
            break
    if ends[-1].kind != "ok":
        return ends[-1].kind if ends[-1].kind in BAD else "lost", ends
    left = [path.name for path in (work.path / "trial").iterdir() if path.suffix == ".tmp"]
    same = outcome(work.path / "trial") == outcome(work.path / "whole")
    return ("leftovers" if left else "same bits" if same else "silent"), ends


def kills(work: Workplace, count: int, rng: random.Random) -> list[tuple[str, str, str]]:
    """(who, when or how, outcome) of each kill."""
    began = time.monotonic()
    shutil.rmtree(work.path / "trial", ignore_errors=True)
    work.do("run", "study.toml", "--out", "trial")
    length, places = time.monotonic() - began, writes_of_a_run(work)
    print(f"a run takes {length:.2f} s and {places} writes, syncs and renames")
    found = []
    for number in range(count):
        shutil.rmtree(work.path / "trial", ignore_errors=True)
        kind = number % 10
        if kind < 6:
            at = number // 10 * 6 + kind
            body = dying_at(1 + at % places, (0.0, 0.3, 1.0)[at // places % 3])
            row = ("parent", "inside a write")
            awaited(forked(body, work.path, work.logs), work.logs)
        elif kind < 8:
            row = ("parent", "random moment")
            pid = forked(command("run", "study.toml", "--out", "trial"), work.path, work.logs)
            time.sleep(rng.uniform(0, length))
            os.kill(pid, signal.SIGKILL)
            awaited(pid, work.logs)
        else:
            row = _with_workers(
                work, rng, "worker" if kind == 8 else rng.choice(("group", "parent"))
            )
        told = row[2] if len(row) > 2 else ""
        if not told:
            told, ends = finish(work)
            if told not in ("same bits",):
                print(*row, told, *ends)
        found.append((row[0], row[1], told))
    return found


def _with_workers(work: Workplace, rng: random.Random, who: str) -> tuple[str, ...]:
    """Kill a worker of a run that has two, its parent, or all by a signal to the group."""
    number = rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT))
    if who != "group":
        number = signal.SIGKILL
    row = (who, f"random moment, {number.name}, two workers")
    started = command(
        "run", "study.toml", "--out", "trial", "--set", "run.threads=2", "--set",
        "run.checkpoint_every=1",
    )  # fmt: skip
    pid = forked(started, work.path, work.logs)
    history = work.path / "trial" / "history.jsonl"
    deadline = time.monotonic() + 60
    while not (history.exists() and history.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(rng.uniform(0, 0.3))
    others = [
        each for each in members(pid) if b"popen_loky" in Path(f"/proc/{each}/cmdline").read_bytes()
    ]
    if who == "worker" and others:
        os.kill(rng.choice(others), number)
    elif who == "parent":
        os.kill(pid, number)
    else:
        os.killpg(pid, number)
    ended = awaited(pid, work.logs)
    if ended.kind in BAD:
        print(*row, ended)
        return (*row, ended.kind)
    deadline = time.monotonic() + 5
    while members(pid):
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            return (*row, "worker left")
        time.sleep(0.05)
    return row


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
    verbs = [*list(READERS.values())[:5], ("plot", "trial", "--format", "svg"), ("report", "trial")]
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
