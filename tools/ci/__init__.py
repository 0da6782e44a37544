"""What CI runs, in which order and for how long: docs/testing.md tells the rules.

    PYTHONPATH=tools python3 -B -m ci --help

table.py reads tests/suites.txt, plan.py decides, run.py does it, and report.py tells the result. record.py keeps
tests/last-passed.txt, and flaky.py the cases that failed once and passed alone.
"""
