"""``python -m quarterjack`` is the command line."""

from quarterjack.cli import main

if __name__ == "__main__":
    main()
