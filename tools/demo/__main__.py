"""The command behind `make run` and `make run-stop`."""

import argparse
import os
import signal
import sys

import lab
from demo import background, bank, show


def stop_on_sigterm():
    """Ends as on Ctrl-C, so that what was built is removed."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))


# What ctest takes for "skipped": the machine cannot do it, so nothing is known about the program.
CANNOT_RUN_HERE = 77


def refuse(message, code=1):
    print(f"demo: {message}", file=sys.stderr)
    return code


def main():
    parser = argparse.ArgumentParser(prog="make run", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the cluster up afterwards")
    parser.add_argument("--stop", action="store_true", help="remove what an earlier --keep left up")
    args = parser.parse_args()

    if os.geteuid() != 0:
        return refuse("needs root, for network namespaces and their rules: try sudo make run", CANNOT_RUN_HERE)
    if args.stop:
        return background.stop_all(bank.PREFIX)
    if not bank.BINARY.exists():
        return refuse(f"{bank.BINARY} is not there: run make first")
    if lacks := lab.missing_capabilities():
        return refuse("cannot build a cluster here, this machine lacks: " + "; ".join(lacks), CANNOT_RUN_HERE)

    stop_on_sigterm()
    try:
        if args.keep:
            return background.run(show.run_and_keep)
        return show.run()
    except KeyboardInterrupt:
        print("\ndemo: interrupted; everything is removed again", file=sys.stderr)
        return 130
    except show.KernelLacks as error:
        return refuse(error, CANNOT_RUN_HERE)
    except (show.Failed, lab.NotInTime) as error:
        return refuse(error)


sys.exit(main())
