"""``python -m tnvmc`` does what ``tnvmc`` does."""

import sys

from tnvmc.app.cli import main

sys.exit(main())
