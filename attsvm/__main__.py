"""`python -m attsvm`: the command line."""

from attsvm.cli import main

if __name__ == "__main__":
    main()
