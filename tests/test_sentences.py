"""Every code has a sentence, and the sentence holds the numbers it is made of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tnvmc
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.shown import line, sentence, step_sentence, templates

MOVED = {"sigmas": 3.2, "per_site": 6.4e-5}
SMALL = {"chi": 8, **MOVED}
CHANGE = {"change_per_site": -1.2e-4, "error_per_site": 4e-5}
D = {
    "smaller_D": 3, "D": 4, "gain_per_site": 7.2e-4, "error_per_site": 3e-5, **MOVED,
    "extrapolated_per_site": -0.60444, "extrapolated_error_per_site": 5.6e-4,
}  # fmt: skip
EXPLODED = {
    "steps": [1, 3], "n_steps": 2, "measurement": False, "largest_per_site": 6.4e7,
    "bound_per_site": 1.2,
}  # fmt: skip
WORSE = {"sigmas": 5.48, "per_site": 7.6e-3, "step": 0, "of_last_stage": False}
ABOVE = {"method": "exact", "relative": 4.9e-2, "sigmas": 68.7, "lacks": "D"}
BELOW = {
    "method": "exact",
    "relative": 1e-3,
    "sigmas": 30.3,
    "raise": ["contraction.chi", "measure.chi"],
}

LAYERS = {
    "energy_per_site": -0.6035221, "truncation_per_site": 2e-8, "sampled_per_site": -0.60354,
    "sampled_error_per_site": 2e-5, "sigmas": 0.9, "chi": [9, 18], "seconds": 4.2,
    "magnetisation": 0, "sector_weight": 0.2,
}  # fmt: skip
LEFT = "double layer: no energy without sampling, since "

STAGGERED = "staggered_magnetisation_squared"

VERDICT: dict[str, Any] = {
    "converged": ["chi", "samples"], "short": [], "undecided": [], "unchecked": ["D"], "warnings": 0, "errors": 0,
}  # fmt: skip

EXAMPLES: list[tuple[str, dict[str, Any], str]] = [
    ("verdict", VERDICT, "converged in chi, samples; D not checked"),
    ("verdict", VERDICT | {"short": ["steps"], "undecided": ["D"], "unchecked": [], "warnings": 1},
     "1 warning below; converged in chi, samples; not converged in steps; undecided in D"),
    ("verdict", VERDICT | {"converged": [], "errors": 1},
     "no result to use: 1 error below; not shown to be converged; D not checked"),
    ("verdict", VERDICT | {"converged": [], "unchecked": []}, "no check has raised a warning"),
    ("verdict", VERDICT | {"converged": [], "unchecked": [], "warnings": 2},
     "2 warnings below; no check has raised anything else"),
    ("chi_enough", {"chi": 12, "largest_chi": 16, "too_small": [], "sigmas": 0.0, "per_site": 0.0},
     "chi 12 is enough: chi 16 on the same samples moves the energy by nothing but rounding"),
    ("chi_enough", {"chi": 12, "largest_chi": 16, "too_small": [], "sigmas": 0.04, "per_site": 2e-6},
     "chi 12 is enough: chi 16 on the same samples moves the energy by less than 0.1 sigma (2e-6 per site)"),
    ("chi_enough", {"chi": 12, "largest_chi": 16, "too_small": [], "sigmas": 0.1, "per_site": 2e-6},
     "chi 12 is enough: chi 16 on the same samples moves the energy by 0.1 sigma (2e-6 per site)"),
    ("chi_enough", {"chi": 12, "largest_chi": 16, "too_small": [SMALL], "sigmas": 0.1, "per_site": 2e-6},
     ("chi 12 is enough: chi 16 on the same samples moves the energy by 0.1 sigma (2e-6 per site); chi 8 is too "
     "small: the energy moves by 3.2 sigma (6.4e-5 per site) at 16")),
    ("chi_not_enough", {"largest_chi": 3, "next_chi": 5, "too_small": [{"chi": 2, "sigmas": None, "per_site": 2e-4}]},
     ("chi 3 is not shown to be enough: measure at 5 as well; chi 2 is too small: the energy moves "
     "by 2e-4 per site at 3")),
    ("chi_undecided", {**SMALL, **CHANGE, "largest_chi": 16, "too_small": []},
     ("chi 8: too few samples to tell whether it is enough; chi 16 on the same samples moves the energy by "
     "-1.20(40)e-4 per site")),
    ("amplitudes_vanish", {"observable": "operator neel"},
     ("neel leads to configurations with psi = 0 exactly, where no sample tells of it: it is left "
      "out; vmc.expect(order_parameter(...)) in Python gives it, by more work")),
    ("amplitudes_vanish", {"share": 0.125},
     ("in 12 % of the samples H leads to configurations with psi = 0 exactly, where no sample tells of H psi: energy "
      "and variance of the Lanczos step may be wrong; add noise to the parameters")),
    ("double_layer_agrees", LAYERS,
     ("double layer: -0.6035221 per site with 2 Sz = 0 (chi 18, the last step of chi moved it by "
     "2e-8; 4.2 s) without sampling; the sampled energy agrees, 0.9 sigma from it")),
    ("double_layer_disagrees", LAYERS | {"magnetisation": None, "sigmas": 8.1},
     ("double layer: -0.6035221 per site (chi 18, the last step of chi moved it by 2e-8; 4.2 s) "
     "without sampling, and the sampled energy (-0.603540(20)) lies 8.1 sigma below it: one of them "
     "is wrong; raise measure.chi, sampler.n_burn and measure.n_samples")),
    ("double_layer_undecided", LAYERS | {"truncation_per_site": None, "chi": [9]},
     ("double layer: -0.6035221 per site with 2 Sz = 0 (chi 9, no other chi; 4.2 s) without "
     "sampling; too rough to tell whether the sampled energy agrees; --double-layer yes takes larger chi")),
    ("double_layer_undecided", LAYERS | {"energy_per_site": None, "sigmas": None, "chi": []},
     ("double layer: nothing without sampling; too rough to tell whether the sampled energy agrees; "
     "--double-layer yes takes larger chi")),
    ("double_layer_left_out", {"reason": "state", "state": "rbm"},
     LEFT + "the layers of a rbm are not contracted"),
    ("double_layer_left_out", {"reason": "sectors", "n_sectors": 2},
     LEFT + "the samples lie in 2 sectors of 2 Sz"),
    ("double_layer_left_out", {"reason": "terms", "n_unfit": 3, "n_terms": 9},
     LEFT + "3 of 9 terms act on three or four sites over more than two rows and columns"),
    ("double_layer_left_out", {"reason": "cost", "D": 6, "chi": 36, "seconds": 4000.0, "most": 120.0},
     (LEFT + "D = 6 at chi 36 would take about 1 h 6 min, more than 2 min 0 s; --double-layer yes "
     "takes it")),
    ("double_layer_left_out", {"reason": "memory", "D": 9, "chi": 81, "n_bytes": 4e10, "most": 8e9},
     LEFT + "D = 9 at chi 81 needs 40 GB, more than the 8 GB there are"),
    ("double_layer_left_out", {"reason": "empty", "magnetisation": 4, "chi": 4},
     LEFT + "the state has no weight with 2 Sz = 4 that chi 4 could see"),
    ("steps_too_few", {"steps": 20}, "steps: 20 are too few to tell whether the energy has settled"),
    ("steps_too_few", {"steps": 1}, "steps: 1 is too few to tell whether the energy has settled"),
    ("steps_settled", {"steps": 20, **MOVED, **CHANGE},
     ("steps: no change of the energy is seen over the last quarter (20 steps): "
     "-1.20(40)e-4 per site")),
    ("steps_undecided", {"steps": 20, **MOVED, **CHANGE},
     ("steps: too noisy to tell whether the energy has settled: a change of -1.20(40)e-4 per site "
     "over the last quarter (20 steps), 3.2 sigma of the measurement; make more steps, or raise "
     "sampler.n_samples")),
    ("time_bound", {"name": "Sx", "time": 2.0, "error": 0.002, "bound": 0.18},
     ("time: <Sx> at t = 2 may be off by up to 0.2 from exact evolution, by what the state cannot "
     "express and by the integrator; the error of 2e-3 is of the samples alone. Compare with a "
     "larger D or alpha")),
    ("time_bound", {"name": None, "time": 2.0, "error": 0.0, "bound": 0.18},
     ("time: the state at t = 2 may be 0.2 (norm of the difference) away from exact evolution, by "
      "what the state cannot express and by the integrator. Compare with a larger D or alpha")),
    ("energy_still_falls", {"steps": 20, **MOVED, **CHANGE},
     ("steps: the energy still falls: by 3.2 sigma (6.4e-5 per site) over the last quarter "
     "(20 steps); more steps will lower it")),
    ("energy_rises", {"steps": 20, **MOVED, **CHANGE},
     ("steps: the energy rises: by 3.2 sigma (6.4e-5 per site) over the last quarter (20 steps); "
     "lower the learning rate")),
    ("samples_measured", {"n_samples": 8192, "error_per_site": 2e-5, "draws": 128.0, "tau": 0.7, "r_hat": 1.001},
     "samples: 8192 give an error of 2e-5 per site, tau 0.7 of 128 draws, R-hat 1.001"),
    ("samples_measured", {"n_samples": 8192, "error_per_site": 2e-5, "draws": 128.0, "tau": None, "r_hat": None},
     "samples: 8192 give an error of 2e-5 per site"),
    ("bond_dimension_single", {"D": 4},
     ("D: D = 4 is the only one here, so its convergence is not known; compare with a larger one, "
      "in stages or in another run")),
    ("bond_dimension_not_enough", D,
     ("D: 4 is not the end: going from D = 3 to 4 lowered the energy by 3.2 sigma (6.4e-5 per "
     "site); a line in 1/D ends at -0.60444(56) per site, which is an extrapolation and no bound")),
    ("bond_dimension_not_enough", D | {"extrapolated_error_per_site": None},
     ("D: 4 is not the end: going from D = 3 to 4 lowered the energy by 3.2 sigma (6.4e-5 per "
     "site); a line in 1/D ends at -0.604440 per site (two points: no error), which is an "
     "extrapolation and no bound")),
    ("bond_dimension_worse", D,
     ("D: the energy at 4 lies above that at 3 by 3.2 sigma (6.4e-5 per site): that stage is not "
     "converged")),
    ("bond_dimension_undecided", D,
     ("D: too few samples to tell whether 3 is enough: going from D = 3 to 4 lowered the energy by "
     "7.2e-04 +- 3e-05 per site")),
    ("bond_dimension_cut", {"D": 2, "larger_D": 3, "lower_per_site": 1.52e-2, "error_per_site": 6e-4},
     "D: the state was cut from D = 3 to 2; there its energy was lower by 1.5e-02 +- 6e-04 per site"),
    ("bond_dimension_cut", {"D": 2, "larger_D": 3, "lower_per_site": -2e-4, "error_per_site": 6e-4},
     "D: the state was cut from D = 3 to 2; there its energy was higher by 2.0e-04 +- 6e-04 per site"),
    ("bond_dimension_enough", D,
     "D: 3 is enough: going from D = 3 to 4 lowered the energy by 3.2 sigma (6.4e-5 per site)"),
    ("zero_variance_energy", {**D, "points": 3, "below_per_site": 9.4e-4},
     ("variance: a line to zero variance through 3 points ends at -0.60444(56) per site, 9.4e-4 "
     "below the measured energy: an extrapolation and no bound")),
    ("zero_variance_energy", {**D, "points": 3, "below_per_site": -9.4e-4},
     ("variance: a line to zero variance through 3 points ends at -0.60444(56) per site, 9.4e-4 "
     "above the measured energy: an extrapolation and no bound")),
    ("zero_variance_below_reference", {**D, "points": 3, "below_per_site": 9.4e-4, "method": "exact", "sigmas": 5.9},
     ("variance: a line to zero variance through 3 points ends at -0.60444(56) per site, 5.9 of its errors "
     "below the exact one: the points lie too far from the ground state for a line, and its end is not to be used")),
    ("measured_energy_not_finite", {"raise": ["chi"]},
     "the measured energy is not finite; lower the learning rate or raise chi"),
    ("measured_energy_not_finite", {"raise": []},
     "the measured energy is not finite; lower the learning rate"),
    ("energy_without_error", {},
     ("the energy has no error bar: its samples are too few, one of them carries all the weight, or "
     "local energies overflow; raise measure.n_samples")),
    ("below_reference", BELOW,
     ("the energy lies 30.3 error bars below the exact one (1e-3 of it), which is a bias and not a "
     "better state; raise contraction.chi or measure.chi")),
    ("below_reference", BELOW | {"method": "QMC"},
     ("the energy lies 30.3 error bars below the one of QMC (1e-3 of it), which is a bias and not a "
     "better state; raise contraction.chi or measure.chi")),
    ("above_reference", ABOVE,
     ("the energy lies 68.7 error bars above the exact one (4.9e-2 of it): not converged; take more "
     "steps, a larger D or another start")),
    ("above_reference", ABOVE | {"higher_level": True},
     ("the energy lies 68.7 error bars above the exact one (4.9e-2 of it): by its small variance it is a higher level, which "
      "steps hardly leave; sum over symmetries (ansatz.symmetrise, ansatz.characters), or take another start")),
    ("above_reference", ABOVE | {"sigmas": None, "lacks": "network", "method": "QMC"},
     ("the energy lies 4.9e-2 (relative) above the one of QMC: not converged; take more steps, "
     "a larger network or another start")),
    ("above_reference", ABOVE | {"lacks": "kind"},
     ("the energy lies 68.7 error bars above the exact one (4.9e-2 of it): not converged; take more "
     "steps, another kind of ansatz or another start")),
    ("signs_raise_energy", {"part": 3.34},
     ("matrix elements of H between configurations raise the energy, by 3.3e0 in all, where other signs of psi would "
     "lower it; give psi signs (ansatz.marshall = true for an antiferromagnet; output or dtype complex), more steps or another start")),
    ("local_energies_exploded", EXPLODED | {"n_steps": 5, "steps": [0, 1, 2], "measurement": True},
     ("local energies exploded in step 1, step 2, step 3 and 3 more: up to 6.4e7 per site, no state "
     "has more than 1.2e0: psi nearly vanishes on configurations that were visited; start from "
     "another ansatz.init or run.seed")),
    ("worse_than_at_start", WORSE,
     ("the energy lies 5.5 sigma (7.6e-3 per site) above that of step 1: the steps made it worse; "
     "lower optimizer.learning_rate or raise sampler.n_samples")),
    ("worse_than_at_start", WORSE | {"step": 7, "of_last_stage": True},
     ("the energy lies 5.5 sigma (7.6e-3 per site) above that of step 8, the first of the last "
     "stage: the steps made it worse; lower optimizer.learning_rate or raise sampler.n_samples")),
    ("parameters_unchanged", {"steps": 60, "raise": ["sampler.n_samples"]},
     ("none of 60 steps changed a parameter: a step of one sample has no direction, and at an eigenstate there is "
     "none; raise sampler.n_samples")),
    ("optimisation_unstable", {"held_back": 3, "steps": 8, "raise": ["sampler.n_samples"]},
     ("3 of 8 steps were undone or shortened: the optimisation is unstable; lower "
     "optimizer.learning_rate, raise sampler.n_samples")),
    ("optimisation_unstable", {"held_back": 3, "steps": 8, "raise": ["sampler.n_samples", "optimizer.diag_shift"]},
     ("3 of 8 steps were undone or shortened: the optimisation is unstable; lower "
     "optimizer.learning_rate, raise sampler.n_samples or optimizer.diag_shift")),
    ("observable_left_out", {"observable": "structure_factor", "reason": "coordinates"},
     "S(q) is left out: the list of bonds has no coordinates; give lattice.coordinates"),
    ("observable_left_out", {"observable": STAGGERED, "reason": "bipartite", "ring": [0, 1, 2]},
     "staggered M^2 is left out: there are no two sublattices, the ring of sites 0, 1, 2 is odd"),
    ("observable_left_out", {"observable": STAGGERED, "reason": "connected", "parts": 3},
     ("staggered M^2 is left out: no bonds join the 3 parts of the lattice, whose sublattices are not "
     "related")),
    ("observables_kept", {"observable": "SS", "n_samples": 512, "chi": 8, "seed": 0},
     "S.S of all pairs is kept from before: 512 samples at chi 8, seed 0"),
    ("observables_kept", {"observable": "ring", "n_samples": 70, "chi": None, "seed": 3},
     "ring is kept from before: 70 samples, seed 3"),
    ("observables_set_aside", {"file": "a.json", "step": 20, "reason": "better"},
     ("what was measured before, after 20 steps, is set aside in a.json: it has more samples, a larger "
     "chi or another operator of the same name")),
    ("observables_set_aside", {"file": "a.json", "step": 20, "reason": "magnetisation"},
     "what was measured before, after 20 steps, is set aside in a.json: it is of another sector"),
    ("walkers_disagree", {"r_hat": 1.2},
     ("R-hat is 1.200: the walkers disagree, the chains still depend on "
     "their start; raise "
     "measure.n_burn, measure.n_thin or measure.n_samples")),
    ("walkers_disagree", {"r_hat": None, "limit": 1.08, "observable": "Sz"},
     ("R-hat of Sz is infinite, above 1.080: the walkers disagree, the chains still depend on "
     "their start; raise measure.n_burn, measure.n_thin or measure.n_samples")),
    ("few_walkers", {"n_walkers": 2, "draws": 8.0, "tau": 0.7},
     ("2 walkers of 8 draws, tau 0.7: too few independent samples for an error bar, which is "
     "widened for it; take 8 walkers or more, or raise measure.n_samples")),
    ("one_draw", {"n_walkers": 64},
     ("one sample of each of 64 chains: nothing shows whether they have forgotten where they "
     "started, and the error may be too small; take two or more samples of each")),
    ("heavy_tail", {"share": 0.42, "n_samples": 1024},
     ("one of 1024 samples makes 42 % of the variance: rare large values may not have been "
     "drawn, and the error bar may be too small; raise measure.n_samples")),
    ("few_configurations", {"changed": 0.12, "n_samples": 256},
     ("only 12 % of 256 draws differ from the one before: one configuration has nearly all the "
     "weight or moves are seldom accepted, and the error bar does not include rare "
     "configurations; raise "
     "measure.n_samples or measure.n_thin")),
    ("few_configurations", {"changed": 0.2, "n_samples": 256, "by_neighbours": 1.84},
     ("only 20 % of 256 draws differ from the one before: one configuration has nearly all the "
     "weight or moves are seldom accepted, and configurations that H connects with them "
     "change the energy by 1.8 error bars: the error bar is widened to that; raise measure.n_samples or "
     "measure.n_thin")),
    ("few_configurations", {"changed": 0.0, "n_samples": 256, "by_neighbours": None},
     ("only 0 % of 256 draws differ from the one before: one configuration has nearly all the "
     "weight or moves are seldom accepted, and the samples alone give no error bar: it is widened to "
     "the change by configurations that H connects with them; raise measure.n_samples or "
     "measure.n_thin")),
    ("few_shared", {"shared": 3.21, "n_samples": 512},
     ("3.2 of 512 samples of a state are worth something in the other: the two hardly overlap, and the error bar may be "
     "too small; raise n_samples")),
    ("different_sectors", {"one": "2 Sz = 0", "other": "2 Sz = 2"},
     "the states are in different sectors (2 Sz = 0; 2 Sz = 2): the overlap is 0"),
    ("purity_unresolved", {"sites": 8, "purity": 0.02, "error": 0.01},
     ("the purity of a block of 8 sites is 0.020(10): too uncertain for its logarithm; raise n_samples, or take a "
     "smaller block")),
    ("few_effective_samples", {"n_samples": 8192, "effective_samples": 300.2, "raise": ["measure.n_samples", "chi"]},
     ("8192 weighted samples are worth 300: few of them carry the weight, and the error bar may be "
     "too small; raise measure.n_samples or chi")),
    ("lower_in_other_sector", {"magnetisation": 0, "other": 12, "energy_per_site": -0.3541667},
     ("a state with 2 Sz = 12 has the lower energy -0.354167 per site: 2 Sz = 0, which was solved, "
     "does not hold the ground state, or this state is far above it; set sampler.magnetisation, or make "
     "more steps")),
    ("lower_with_other_characters", {"energy_per_site": -0.4514531},
     ("a state of another symmetry has the lower energy -0.451453 per site: with these characters it is "
     "another level; for the ground state set other ansatz.characters, or sum over no symmetry")),
    ("symmetries_not_proven", {"n_symmetries": 9},
     ("psi has 9 symmetries of the lattice whatever its parameters are, and nothing proves that the ground "
     "state has them: it may be another level; compare with a state that has none, as a PEPS without sharing")),
    ("sector_not_compared", {"magnetisation": 0, "bosons": 36, "expected": -24},
     ("not all sectors are small enough to be compared, and no symmetry tells which is the lowest: the "
     "ground state may have another magnetisation than 2 Sz = 0, which was solved (36 bosons, if local states "
     "count them), a small cluster suggests 2 Sz = -24; set sampler.magnetisation, and compare the energies of "
     "several")),
    ("closure_spread_large", {"spread": 0.1, "threshold": 5.8e-3},
     ("closure spread is 1e-1, above 5.8e-3, the limit for this error of the energy: amplitudes depend on "
     "the row where they are computed, by enough to change the energy; raise contraction.chi and measure.chi")),
    ("not_orthogonal", {"number": 1, "squared": 0.953, "error": 0.004, "penalty": 0.05, "raise": ["penalty"]},
     ("the squared overlap with kept state 1 is 0.9530(40): the energy is not that of an excited "
     "state; make more steps, raise its penalty (orthogonal.1.penalty in a file, now 0.05) above the gap, or start elsewhere (run.seed)")),
    ("not_orthogonal",
     {"number": 1, "squared": 0.953, "error": 0.004, "penalty": 0.05, "state": "'ground'", "key": "sector.3.penalty"},
     ("the squared overlap with 'ground' is 0.9530(40): the energy is not that of an excited "
     "state; make more steps, raise its penalty (sector.3.penalty, now 0.05) above the gap, or start elsewhere (run.seed)")),
    ("overlap_unknown", {"number": 2, "squared": 0.1, "error": 0.2, "penalty": 4.0, "raise": ["n_samples"]},
     ("the squared overlap with kept state 2, 1e-1, has an error of 2e-1: too large to tell "
     "whether the two are orthogonal; raise measure.n_samples")),
    ("below_level", {"sigmas": 12.31, "reference": -2.31, "relative": 0.0234},
     ("the energy lies 12.3 error bars below that of the next exact level (2.3 %): a kept state is not yet an "
     "eigenstate, so that some of it is left in this one; optimise the kept states further, then make this run again")),
    ("kept_not_lowest", {"number": 2, "energy": -2.5001234, "level": 2, "reference": -3.5228601},
     ("kept state 2 has the energy -2.50012, and level 2 of this sector -3.52286: it is another level, or far from "
     "converged, so that the lowest state orthogonal to the kept ones is not level 3; make that run again from another "
     "start (run.seed, ansatz.init = 'random'), or go on with it")),
    ("measured_chi_too_small", {"chi": 16, "largest_chi": 24, **MOVED},
     ("the energy was measured at chi 16 and moves by 3.2 sigma (6.4e-5 per site) at 24; raise "
     "measure.chi")),
    ("uneven_weights", {"chi": 8, "drawn_at": 16, "n_samples": 2048, "effective_samples": 900.0},
     ("at chi 8 the 2048 configurations drawn at chi 16 are worth 900: the amplitudes differ too "
     "much for a comparison; raise chi")),
    ("energy_not_finite", {}, "energy not finite"),
    ("energy_jump", {"before": -9.12, "after": 5.5}, "energy jumped from -9.12 to 5.5"),
    ("variance_jump", {"before": 0.5, "after": 123.4}, "variance jumped from 0.5 to 123"),
    ("direction_not_finite", {}, "direction not finite"),
    ("sampling_failed", {"reason": "psi vanishes"}, "psi vanishes"),
    (
        "variance_large",
        {"v_score": 0.45, "most": 0.08, "lacks": "D"},
        (
            "the variance is large: a V-score of 0.45, above 0.08, so the state is far from any "
            "eigenstate and its energy may lie far above the lowest one; try more steps or a "
            "larger D"
        ),
    ),
    (
        "exchange_fixed",
        {"pairs": [{"sites": [3, 4], "parity": -1}, {"sites": [6, 7], "parity": 1}]},
        (
            "exchanging the two sites of 2 pairs of neighbours, 3 and 4 the first, multiplies psi "
            "by -1 exactly, which H does not ask for: the start has it, and no step changes it; "
            'start with ansatz.init_noise = 0.3, or from init = "random"'
        ),
    ),
    (
        "start_not_compared",
        {"start": "simple_update", "least": 40},
        (
            "begins with simple update, the one start that was tried; 40 steps or more, or "
            "VMC.choose_start() before the first one, take the best of several"
        ),
    ),
    (
        "starts_tried",
        {"start": "simple_update", "steps": 8, "tried": [
            {"start": "simple_update", "energy_per_site": -0.39, "error_per_site": 0.002,
             "variance_per_site": 0.1, "steps": 8},
            {"start": "product", "energy_per_site": -0.3, "error_per_site": 0.01,
             "variance_per_site": 0.1, "steps": 8},
            {"start": "random", "energy_per_site": -0.2, "error_per_site": 0.02,
             "variance_per_site": 0.1, "steps": 4},
        ]},
        (
            "starts after 8 steps, energy per site: simple update -0.3900(20); product -0.300(10); "
            "random -0.200(20) (after 4); the run begins with simple update"
        ),
    ),
    (
        "chi_grown",
        {"before": 4, "chi": 6},
        "truncation may move the energy by more than its error: chi = 6 from the next step on, 4 before",
    ),
    (
        "samples_grown",
        {"before": 128, "n_samples": 256},
        "noise dominates the steps: 256 samples from the next one on, 128 before",
    ),
    ("step_shortened", {"factor": 0.313}, "step shortened to 0.31 of its length"),
    ("step_shortened", {"factor": 0.9991}, "step shortened by less than 1 %"),
    (
        "system_not_solved",
        {"residual": 0.0213},
        ("the equations of SR were solved to a residual of 2.1e-02 only: raise diag_shift, or the "
        "iterations of ConjugateGradients(most=...)"),
    ),
    ("measured_before_last_update", {"because": "energy_jump", "before": -9.12, "after": 5.5},
     "energy jumped from -9.12 to 5.5: measured without the last update"),
    ("measured_mean",
     {"taken": -9.1523, "taken_error": 0.01, "left": -9.1411, "left_error": 0.02},
     ("the mean of the parameters of the steps was measured: its total energy is -9.152(10), that of the last "
     "ones -9.141(20)")),
    ("burnt_in_longer", {"times": 2},
     ("the chains still remembered their start: samples were drawn again 2 times, from where they had come")),
    ("error_not_reached", {"ratio": 2.13, "n_samples": 1234567.0, "seconds": 240.0},
     ("the error is 2.1 times the one asked for: that takes about 1.2e+06 samples, 4 min 0 s")),
    ("measured_again", {"power": 0.513},
     ("rare configurations make most of the variance: the energy was measured by samples of |psi|^1, with "
     "weights")),
    ("measured_first",
     {"taken": -9.1523, "taken_error": 0.01, "left": None, "left_error": None},
     ("the parameters from before the first step were measured, the steps made them worse; "
     "raise sampler.n_samples")),
    ("stopped_on_plateau", {"steps": 31}, "stopped on its plateau after 31 steps"),
    ("run_failed", {"reason": "no luck"}, "failed: no luck"),
    ("run_unreadable", {"reason": "out/x: no such folder"}, "out/x: no such folder"),
    ("run_unfinished", {},
     "not measured after its last step; go on with --resume"),
    ("run_not_begun", {}, "not begun; go on with --resume"),
    ("not_concave", {"left": "h=1", "right": "h=2", "distance": 2.1e-3, "sigmas": 5.0},
     ("its energy per site lies 2.1e-3 (5.0 errors) below the line between 'h=1' and 'h=2', which exact energies "
      "do not: one of these two is not converged; take more steps, a larger D, or the values in another order")),
    ("numbers_not_finite", {}, "its energy, error or variance is not finite"),
    ("settings_unreadable", {"reason": "sampler.kind"},
     "the settings it was measured with cannot be read (sampler.kind)"),
    ("sector_unfinished", {}, "not measured after its last step; go on with tnvmc run --resume"),
    ("gap_negative", {"gap": -0.1, "sigmas": 4.21},
     ("lies 4.2 errors below the first sector: gaps count from that, so put the lowest first; or the first is "
     "not converged")),
    ("gap_far_from_exact", {"exact": 0.50227, "distance": 0.0312, "sigmas": 7.84},
     ("is +0.031 from the exact one, 0.502270 (+7.8 errors): one of the energies has a bias; take more steps, a "
     "larger D, or another start (init)")),
    ("gap_far_from_exact", {"exact": 0.50227, "distance": -0.0312, "sigmas": None},
     ("is -0.031 from the exact one, 0.502270: one of the energies has a bias; take more steps, a larger D, or "
     "another start (init)")),
    ("same_state", {"other": "ground", "sigmas": 1.24},
     ("the quantum numbers of 'ground' do not exclude these, and the energies are 1.2 errors apart: both may have "
     "the same state; give it characters, or orthogonal_to")),
    ("same_state", {"other": "ground", "sigmas": None},
     ("the quantum numbers of 'ground' do not exclude these, and the energies are the same: both may have "
     "the same state; give it characters, or orthogonal_to")),
    ("not_lowest", {"other": "triplet", "distance": 0.12, "sigmas": 40.0},
     ("is not the lowest of its sector: a state of these quantum numbers has at most the energy of 'triplet', which is "
     "1.2e-1 lower (40.0 errors); take more steps, or another start (init, run.seed)")),
    ("kept_changed", {"other": "ground"},
     ("'ground' went on after this state was kept orthogonal to it, and has another state now: the gap and the overlap "
     "do not belong together; make both again in another --out")),
    ("gap_bias_small", {"residual": 6.5e-4, "residual_below": 4.6e-5, "bias": 6e-4, "error": 3e-3},
     ("the bias of the gap is smaller than its error: by the V-scores the energy lies about 6.5e-4 too high, that of "
     "the first 4.6e-5")),
    ("sector_not_begun", {}, "not begun; go on with tnvmc run --resume"),
    ("start_not_begun", {}, "not begun; go on with tnvmc run --resume"),
    ("start_unfinished", {}, "not measured after its last step; go on with tnvmc run --resume"),
    ("start_changed", {"name": "start-2", "again": "again-2"},
     ("again-2 did not measure the state that start-2 has now: one of them went on, or a file is gone; make the starts "
      "anew in another --out")),
    ("start_unlike", {"settings": ["steps 4 (now 5)"]},
     "was made with other settings than the file of the starts has (steps 4 (now 5)), so its energy is not compared"),
    ("starts_identical", {"n_starts": 3},
     ("all 3 starts have the same energy to the last digit: they are one start; put noise on it (ansatz.init_noise), or "
      "take init = 'random'")),
    ("starts_agree", {"n_starts": 3, "near": 3, "within": 3.0, "spread_per_site": 1e-4},
     "all 3 starts end within 3 errors of the lowest energy"),
    ("starts_differ", {"n_starts": 3, "near": 2, "within": 3.0, "spread_per_site": 2.1e-3},
     ("2 of 3 starts end within 3 errors of the lowest energy, the highest 2.1e-3 per site above it: what is "
      "reached depends on the start")),
    ("lowest_alone", {"n_starts": 3, "near": 1, "within": 3.0, "spread_per_site": 2.1e-3},
     ("one of 3 starts alone reaches the lowest energy, the highest ends 2.1e-3 per site above it: more starts "
      "(run.starts) may find a lower one")),
    ("averaged", {"n_runs": 3, "mean": -0.5712, "error": 0.012, "sampling_error": 3.4e-4,
                  "scatter": 0.021, "units": "S.S"},
     ("mean over 3 runs: -0.571(12) per site (S.S units), the error over runs; of it samples make 3.4e-4, and one "
      "run lies 2.1e-2 off the mean")),
    ("runs_missing", {"n_runs": 2, "asked": 3},
     "2 of 3 runs are in the mean, which those that are missing may move; go on with --resume"),
    ("runs_differ", {"name": "seed=4", "largest": 8.13, "limit": 3.2},
     ("seed=4 lies 8.1 of its errors off the mean of one Hamiltonian, noise alone 3.2 at most: what is reached "
      "depends on the seed, and the error over runs counts; the lowest is found by run.starts")),
    ("gap_bias", {"residual": 0.02, "residual_below": 0.013, "bias": 0.007, "error": 3e-3},
     ("the error of the gap holds the samples only; by the V-scores the energy may lie 2e-2 too high, and 1.3e-2 "
     "that of the first: a bias of about +0.007, known within a factor of two; a larger D or more steps lower it")),
    ("measured_differently", {"key": "n_samples", "this": 128, "others": 64},
     "measured with another n_samples: 128, the others 64"),
    ("measured_differently", {"key": "symmetrise", "this": ["spin", "point"], "others": []},
     "measured with another symmetrise: spin, point, the others none"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "values", "text"), EXAMPLES)
def test_sentences(code: str, values: dict[str, Any], text: str) -> None:
    assert sentence(Diagnostic(code, "good", values)) == text


def test_every_template_has_an_example_and_every_phrase_a_use() -> None:
    assert {code for code, _, _ in EXAMPLES} == set(templates()["sentences"])
    assert all(
        any(f"{{{{ {name} }}}}" in text for text in templates()["sentences"].values())
        for name in templates()["phrases"]
    )


def codes_in_the_package() -> Iterator[str]:
    """Codes of all `Diagnostic("code", ...)` in the source; no other form is allowed."""
    for path in Path(tnvmc.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if not named or node.func.id != "Diagnostic" or path.parent.name == "report":
                continue
            assert node.args and isinstance(node.args[0], ast.Constant), (path, node.lineno)
            yield node.args[0].value


@pytest.mark.whole
def test_every_code_has_a_template_and_no_template_is_dead() -> None:
    assert set(codes_in_the_package()) == set(templates()["sentences"])


def test_the_status_shows() -> None:
    values = {"n_samples": 64, "error_per_site": 2e-5, "draws": 1.0, "tau": None, "r_hat": None}
    doubtful = sentence(Diagnostic("samples_measured", "open", values))
    assert doubtful == "samples: 64 give an error of 2e-5 per site; see the warnings"
    assert line(Diagnostic("energy_not_finite", "warning")) == "warning: energy not finite"
    assert line(Diagnostic("energy_not_finite", "error")) == "warning: energy not finite"
    assert line(Diagnostic("energy_not_finite", "open")) == "energy not finite"


def test_one_of_another_version_is_shown_as_it_stands() -> None:
    assert sentence(Diagnostic("dreamt", "open", {"n": 3})) == "dreamt (n = 3)"
    held = {"code": "energy_jump", "status": "warning", "values": {"before": None, "after": 1.0}}
    assert sentence(Diagnostic.from_dict(held)) == "energy_jump (before = None, after = 1.0)"


def test_what_happened_to_a_step() -> None:
    short = Diagnostic("step_shortened", "open", {"factor": 0.3})
    jump = Diagnostic("variance_jump", "warning", {"before": 0.5, "after": 50.0})
    assert step_sentence([], undone=False) == ""
    assert step_sentence([short], undone=False) == "step shortened to 0.3 of its length"
    assert step_sentence([jump], undone=True) == (
        "variance jumped from 0.5 to 50: step undone, next ones shorter"
    )
