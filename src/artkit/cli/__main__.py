"""`python -m artkit.cli`, for where the `artkit` script is not on the path."""

from artkit.cli.main import main

raise SystemExit(main())
