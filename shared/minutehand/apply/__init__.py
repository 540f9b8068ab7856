"""What packages and files declare, beside what there is: the words of a declaration, files of them, and what would change.

Pure but for the reading and writing of YAML text: no clock, no cloud. ``sdk/declared.py`` brings about what is decided here.
"""
