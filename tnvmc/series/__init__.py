"""Several runs as one thing: a comparison, sectors, starts or a scan, from one settings file."""
