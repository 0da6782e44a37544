"""Mutants: does a unit test notice when a condition or a constant of the code changes?

    places.py       finds what can be changed in a file, with libclang
    rewrite.py      writes a copy of the file that holds all changes, each behind a switch
    mutant.h        the switches: KP_MUTANT=17 in the environment turns on the 17th
    program.py      compiles the copy and links it into the room's unit tests
    trials.py       runs the tests, once for each mutant
    equivalent.py   reads equivalent.txt: mutants that no test can notice, each with the reason
    __main__.py     the command line and the report
"""
