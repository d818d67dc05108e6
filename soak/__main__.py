"""Long runs of what `make test` samples: damage, forged lengths, fuzzing, crashes.

usage: python -m soak corruption       damage every byte of every file of the tiny tables
       python -m soak lengths [NAME]   set every length and count to what it must not be
       python -m soak fuzz [NAME]      coverage-guided fuzzing of every decoder
       python -m soak peers            hudi-rs on the damage of one log file
       python -m soak crashes [--all]  a fault at every operation of all that writes
       python -m soak interleavings    every two things done to a table, one amid the other
       python -m soak threads          threads, forks and processes that share one Table
       python -m soak kills            processes that are killed amid work on a record index
       python -m soak moves            processes that move keys of a record index, and others
       python -m soak clocks           processes whose clocks differ, stopped beyond their leases
       python -m soak indexes          tables opened with every index but their own
       python -m soak machine [KIND]   whatever may be done to a table, in whatever order
       python -m soak written          digests of what every work writes, to compare revisions
       python -m soak report           write the figures into docs/reliability.md
"""

from __future__ import annotations

import argparse
import sys
from random import Random

from soak.damage.corruption import print_bad, save_figures, sweep_peers, sweep_tables
from soak.damage.damages import DAMAGES
from soak.damage.fuzzing import fuzz_all
from soak.damage.lengths import FORGERS, forge_lengths
from soak.damage.tables import TABLES
from soak.damage.targets import TARGETS
from soak.own_s3 import own_s3
from soak.processes.clocks import run_clocks
from soak.processes.kills import run_kills
from soak.processes.moves import run_moves
from soak.processes.threads import TRIALS, run_trials
from soak.report import write_report
from soak.works.crashes import plan_pieces, sample_pieces, sample_recovery, strike_pieces
from soak.works.indexes import run_subjects
from soak.works.interleavings import MEETINGS, interleave_all
from soak.works.machine import MACHINES
from soak.works.machine_runs import run_machines
from soak.works.strikes import Share
from soak.works.written import digest_works


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")

    corruption = commands.add_parser("corruption")
    corruption.add_argument("--damage", nargs="+", choices=DAMAGES, default=["flip", "cut"])
    corruption.add_argument("--table", nargs="+", choices=TABLES, default=TABLES)
    corruption.add_argument("--only", default="", help="files whose path has this in it")
    corruption.add_argument("--seed", type=int, default=0)
    corruption.add_argument("--stride", type=int, default=1, help="every n-th case only")

    lengths = commands.add_parser("lengths")
    lengths.add_argument("name", nargs="*", choices=[*FORGERS, []])
    lengths.add_argument("--cases", type=int, help="of each seed, spread over all")

    fuzz = commands.add_parser("fuzz")
    fuzz.add_argument("name", nargs="*", choices=[*TARGETS, []])
    fuzz.add_argument("--seconds", type=int, default=60, help="of each decoder")

    peers = commands.add_parser("peers")
    peers.add_argument("--table", nargs="+", choices=TABLES, default=["0.15.0/tiny_mor"])

    crashes = commands.add_parser("crashes")
    crashes.add_argument("--all", action="store_true", help="many times what the tests strike")
    crashes.add_argument("--seed", default="0", help="of what is struck without --all, or --most")
    crashes.add_argument("--only", default="", help="pieces whose name has this in it")
    crashes.add_argument("--most", type=int, help="faults of a sort, and states, of each piece")

    meetings = commands.add_parser("interleavings")
    meetings.add_argument("--only", default="", help="meetings whose names have this in them")
    meetings.add_argument("--most", type=int, help="operations before which two meet, spread")

    threads = commands.add_parser("threads")
    threads.add_argument("--only", default="", help="trials whose names have this in them")
    threads.add_argument("--minutes", type=float, default=10, help="begin no trial after this")
    threads.add_argument("--rounds", type=int, default=4, help="keys and increments of a worker")
    threads.add_argument("--seed", type=int, default=0, help="of the order of the trials")

    kills = commands.add_parser("kills")
    kills.add_argument("--minutes", type=float, default=10, help="begin no table after this")
    kills.add_argument("--seed", type=int, default=0, help="of the first tables")

    moves = commands.add_parser("moves")
    moves.add_argument("--minutes", type=float, default=5, help="begin no table after this")
    moves.add_argument("--seed", type=int, default=0, help="of the first tables")

    clocks = commands.add_parser("clocks")
    clocks.add_argument("--minutes", type=float, default=10, help="begin no table after this")
    clocks.add_argument("--seed", type=int, default=0, help="of the first tables")

    indexes = commands.add_parser("indexes")
    indexes.add_argument("--minutes", type=float, default=10, help="begin no table after this")
    indexes.add_argument("--seed", type=int, default=0, help="of the tables")

    machine = commands.add_parser("machine")
    machine.add_argument("kind", nargs="*", choices=[*MACHINES, []])
    machine.add_argument("--tables", type=int, default=1000, help="of each kind")
    machine.add_argument("--steps", type=int, default=50, help="done to each, at most")

    written = commands.add_parser("written")
    written.add_argument("--only", default="", help="works whose name has this in it")

    commands.add_parser("report")

    for command in (corruption, crashes, meetings, threads, kills, moves, clocks, indexes, machine):
        command.add_argument("--save", action="store_true", help="keep the figures for the report")
    for command in (corruption, fuzz, peers, crashes, meetings, machine):
        command.add_argument("--workers", type=int, default=2)
    return parser.parse_args()


def main() -> int:
    """Run one command; return 1 if it met what must not be."""
    arguments = _parse_arguments()
    if arguments.command == "peers":
        save_figures(sweep_peers(arguments.table, workers=arguments.workers), "peers")
        return 0
    if arguments.command == "report":
        write_report()
        return 0
    if arguments.command == "written":
        for written in digest_works(arguments.only):
            print(written, flush=True)
        return 0
    if arguments.command == "crashes":
        sampled = [*sample_pieces(arguments.seed), sample_recovery(arguments.seed)]
        pieces = plan_pieces() if arguments.all else sampled
        pieces = [piece for piece in pieces if arguments.only in f"{piece.kind} {piece.work}"]
        share = Share(arguments.most, arguments.seed)
        return strike_pieces(pieces, workers=arguments.workers, save=arguments.save, share=share)
    if arguments.command == "interleavings":
        wanted = [meeting for meeting in MEETINGS if arguments.only in " | ".join(meeting)]
        return interleave_all(
            wanted, workers=arguments.workers, most=arguments.most, save=arguments.save
        )
    if arguments.command == "threads":
        trials = [trial for trial in TRIALS if arguments.only in " | ".join(trial)]
        Random(arguments.seed).shuffle(trials)  # noqa: S311  (an order, no secret)
        with own_s3() as options:
            return run_trials(
                trials,
                options,
                rounds=arguments.rounds,
                minutes=arguments.minutes,
                save=arguments.save,
            )
    by_minutes = {
        "clocks": run_clocks,
        "indexes": run_subjects,
        "kills": run_kills,
        "moves": run_moves,
    }
    if arguments.command in by_minutes:
        run = by_minutes[arguments.command]
        return run(arguments.seed, minutes=arguments.minutes, save=arguments.save)
    if arguments.command == "machine":
        return run_machines(
            arguments.kind or list(MACHINES),
            arguments.tables,
            arguments.steps,
            workers=arguments.workers,
            save=arguments.save,
        )
    if arguments.command == "corruption":
        return _corruption(arguments)
    if arguments.command == "fuzz":
        names = arguments.name or list(TARGETS)
        return int(fuzz_all(names, arguments.seconds, arguments.workers) > 0)
    for name in arguments.name or FORGERS:
        cases, most = forge_lengths(name, arguments.cases)
        print(f"{name}: {cases} cases, at most {most} bytes allocated", flush=True)
    return 0


def _corruption(arguments: argparse.Namespace) -> int:
    sweeps = sweep_tables(
        arguments.damage,
        arguments.table,
        workers=arguments.workers,
        seed=arguments.seed,
        stride=arguments.stride,
        only=arguments.only,
    )
    if arguments.save:
        save_figures(sweeps, "corruption")
    return print_bad(sweeps)


if __name__ == "__main__":
    sys.exit(main())
