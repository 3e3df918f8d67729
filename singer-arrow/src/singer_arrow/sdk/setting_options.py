"""Command-line options that set settings: the settings of `--config`, with those of the command line over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

Merge = Callable[[dict[str, Any], Mapping[str, Any]], None]
"""Writes what the command line gives, by the names of its parameters, into settings."""


def add_setting_options(command: click.Command, params: Iterable[click.Parameter], merge: Merge = dict.update) -> None:
    """Add parameters that set settings to a command with `--config`; those that are not given change nothing.

    `--discover` and `--test` of the SDK run while the command line is parsed, so all of it that makes settings must be
    parsed before them: the parameters are eager, and a hidden one, parsed last of all that are eager, merges them.
    """
    added = list(params)
    for param in added:
        param.is_eager = True
    names = [param.name for param in added if param.name is not None]

    def merge_given(ctx: click.Context, param: click.Parameter, value: object) -> None:  # noqa: ARG001 - click's signature
        given = {name: value for name in names if (value := ctx.params.pop(name, None)) not in (None, ())}
        merge(ctx.params["config"].config, given)

    last = click.Option(
        ["--merge-settings"], is_flag=True, is_eager=True, expose_value=False, hidden=True, callback=merge_given
    )
    command.params.extend([*added, last])


def options_of(schema: Mapping[str, Any], names: Iterable[str]) -> list[click.Option]:
    """Return an option for each of some settings that are text or whole numbers: `--load-method` for `load_method`."""
    options = []
    for name in names:
        declared = schema["properties"][name]
        kind = click.INT if "integer" in declared["type"] else click.STRING
        words = f"Setting {name}: {declared['description']}"
        options.append(click.Option([f"--{name.replace('_', '-')}", name], type=kind, help=words, show_default=False))
    return options
