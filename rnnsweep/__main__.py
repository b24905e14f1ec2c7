"""The command `rnnsweep`, whose package is imported first: it explains a package of that name."""

from orchestrator.__main__ import main

if __name__ == "__main__":
    main()
