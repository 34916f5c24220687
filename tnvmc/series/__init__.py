"""Level 9: several runs as one thing: a comparison, sectors, starts or a scan, from one file."""
