"""``python -m minutehand`` is the command line."""

from minutehand.cli import main

if __name__ == "__main__":
    main()
