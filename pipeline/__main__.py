"""`python -m pipeline`."""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib import import_module
from types import ModuleType


class Later(ModuleType):
    """Stands for a module until one of its names is asked for, and has all of them from then on.

    `importlib.util.LazyLoader` loads it as soon as a second module imports it.
    """

    def __getattr__(self, name: str) -> object:
        del sys.modules[self.__name__]
        self.__dict__.update(import_module(self.__name__).__dict__)
        return getattr(self, name)


def _guarded() -> int:
    """The exit code; an error of the pipeline itself must not end with 1, which means a mismatch.

    Before and after a run, which handles signals itself, SIGTERM has the same effect as Ctrl-C.
    """
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        from pipeline.ground.streams import through_streams

        if _lists():
            gc.disable()  # it ends at once; looking for garbage would take a tenth of its time
            sys.modules["numpy"] = Later("numpy")  # it computes nothing, and this would take half of it
        return through_streams(_called)
    except KeyboardInterrupt:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not stop the clean end
        sys.stderr.write("interrupted\n")
        return _interrupted()
    except OSError as error:
        sys.stderr.write(f"cannot go on: {error}\n")  # the host's fault (a full disk): no traceback
    except Exception:
        import traceback

        traceback.print_exc()
    from pipeline.ground.streams import INTERNAL_ERROR

    return INTERNAL_ERROR


def _called() -> int:
    """The exit code of the command line."""
    # Imported here because it imports every kernel, and an unfinished kernel may not be valid Python.
    from pipeline.commands.cli import main

    return main(sys.argv[1:])


def _lists() -> bool:
    """Whether the command is `list`, for which people wait: it prints what it finds, and ends."""
    return sys.argv[1:2] == ["list"]


def _interrupted() -> int:
    from pipeline.ground.jobs import State
    from pipeline.ground.results import OUTCOMES

    return OUTCOMES[State.INTERRUPTED].exit_code


if __name__ == "__main__":
    ended = _guarded()
    if _lists():
        os._exit(ended)  # all is written; taking every module and object apart would last a tenth of its time
    sys.exit(ended)
