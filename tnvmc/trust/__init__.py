"""Level 8: every judgement of a number, made once, on objects: samples, chi, sectors, steps, gaps."""
