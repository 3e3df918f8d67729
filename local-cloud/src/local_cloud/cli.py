"""The commands `local-cloud run -- COMMAND...`, `up`, `seed` and `query "SELECT ..."`."""

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from local_cloud import command, environment
from local_cloud.cloud import MORE_SERVICES, SERVICES, Cloud
from local_cloud.errors import LocalCloudError
from local_cloud.faults.client import load_rules
from local_cloud.query import DEMO_DATA, WAREHOUSES, query
from local_cloud.s3 import setup
from local_cloud.seed import print_on_stderr, seed


class _Ended(BaseException):
    """A signal to end this process. Like KeyboardInterrupt, it is not caught on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _ignore_signals() -> None:
    """Ignore further signals, so that a second Ctrl-C does not interrupt the shutdown."""
    for number in command.FORWARDED:
        signal.signal(number, signal.SIG_IGN)


def _end(number: int, _: object) -> None:
    _ignore_signals()
    raise _Ended(number)


def _services(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "local-cloud", description="S3, SQS, BigQuery, Redshift, Flight SQL and Dask on 127.0.0.1."
    )
    subparsers = parser.add_subparsers(dest="action", required=True, metavar="run|up|seed|query")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--service",
        type=_services,
        action="extend",
        metavar=",".join((*SERVICES, *MORE_SERVICES)),
        help=f"which to start; by default {','.join(SERVICES)}",
    )
    common.add_argument("--data-dir", type=Path, help="keep the data here; by default it is gone at the end")
    common.add_argument("--fresh", action="store_true", help="remove what is kept in --data-dir first")
    common.add_argument("--latency-ms", type=float, default=0.0, metavar="N", help="delay each answer of S3")
    common.add_argument("--faults", type=Path, metavar="FILE", help="JSON with rules of the fault proxy before S3")
    common.add_argument("--seed", action="store_true", help="put the sample data into the source bucket first")
    run = subparsers.add_parser("run", parents=[common], help="run a command with the services, then stop them")
    run.add_argument("command", nargs="+", metavar="COMMAND")
    subparsers.add_parser("up", parents=[common], help="keep the services until Ctrl-C; prints their environment")
    fill = subparsers.add_parser("seed", help="upload the sample data to the surrounding environment's S3")
    fill.add_argument("--bucket", default=os.environ.get("LOCAL_CLOUD_SOURCE_BUCKET"), help="default: source bucket")
    ask = subparsers.add_parser(
        "query",
        help="print the rows of a local warehouse as a table",
        description="Print the rows of a query as a table. It asks the warehouse of the surrounding `local-cloud run` "
        f"or `up`. If there is none, it starts one with the data that `make demo` has kept in {DEMO_DATA}.",
    )
    ask.add_argument("sql", metavar="SQL", help='for example "SELECT * FROM demo.airlines LIMIT 5"')
    ask.add_argument("--warehouse", choices=WAREHOUSES, help="default: bigquery, or redshift if only that is running")
    ask.add_argument("--data-dir", type=Path, help=f"start a warehouse with the data kept here; default: {DEMO_DATA}")
    return parser


def _up(cloud: Cloud) -> int:
    lines = [f"unset {name}" for name in environment.MISLEADING if name in os.environ]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(cloud.env.items())]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    sys.stderr.write("local-cloud: ready; Ctrl-C stops it\n")
    while True:
        signal.pause()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = _parser().parse_args(argv)
    before = {number: signal.signal(number, _end) for number in command.FORWARDED}
    try:
        if arguments.action == "query":
            sys.stdout.write(query(arguments.sql, warehouse=arguments.warehouse, data_dir=arguments.data_dir) + "\n")
            return 0
        return _seed(arguments.bucket) if arguments.action == "seed" else _with_cloud(arguments)
    except LocalCloudError as error:
        sys.stderr.write(f"local-cloud: {error}\n")
        return 1
    except _Ended as ended:
        return 0 if arguments.action == "up" else 128 + ended.number
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _with_cloud(arguments: argparse.Namespace) -> int:
    rules = load_rules(arguments.faults) if arguments.faults else []
    services = arguments.service or SERVICES
    kept = {"data_dir": arguments.data_dir, "is_fresh": arguments.fresh}
    with Cloud(services, latency_ms=arguments.latency_ms, faults=rules, **kept) as cloud:
        if arguments.seed:
            seed(setup.client("s3", cloud.s3_url), environment.SOURCE_BUCKET, print_on_stderr)
        if arguments.action == "up":
            return _up(cloud)
        code = command.run(arguments.command, cloud.environ())
        _ignore_signals()
        return code


def _seed(bucket: str | None) -> int:
    if not bucket or not os.environ.get("AWS_ENDPOINT_URL"):
        # Without these variables the sample would be uploaded to a real account.
        raise LocalCloudError("seed needs AWS_ENDPOINT_URL and a bucket: run it within `local-cloud run` or `up`")
    import boto3

    seed(boto3.client("s3"), bucket, print_on_stderr)
    return 0
