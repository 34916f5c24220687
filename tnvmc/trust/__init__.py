"""Level 8: every judgement of a number: by samples, exact energies, chi, sectors, steps, gaps."""
