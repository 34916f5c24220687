"""``python -m tnvmc`` does what ``tnvmc`` does."""

import sys

from tnvmc.run.cli import main

sys.exit(main())
