"""From a function of groups of options to a command that has every option of every group."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any


def takes(*groups: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn a function of option groups (and options of its own) into a function of options.

    The function's first parameters take one instance of each group; parameters after them stay
    options of the command.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function).parameters.values())[len(groups) :]
        parameters = [_parameter(option) for group in groups for option in _options(group)]
        parameters += [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]

        @wraps(function)
        def command(**given: Any) -> None:
            filled = [_filled(group, given) for group in groups]
            function(*filled, **given)

        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        del command.__wrapped__  # type: ignore[attr-defined] - or Typer would read its signature
        return command

    return decorate


def _options(group: type[Any]) -> Iterator[Any]:
    """List the options of a group, and of the groups within it."""
    for one in fields(group):
        if is_dataclass(one.type):
            yield from _options(one.type)  # type: ignore[arg-type]
        else:
            yield one


def _filled(group: type[Any], given: dict[str, Any]) -> Any:
    """Make a group of the options that were given, which are used up."""
    return group(
        **{
            one.name: _filled(one.type, given) if is_dataclass(one.type) else given.pop(one.name)  # type: ignore[arg-type]
            for one in fields(group)
        }
    )


def _parameter(option: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if option.default is MISSING else option.default
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=option.type
    )
