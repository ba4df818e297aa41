"""`python -m pipeline`."""

from __future__ import annotations

import os
import signal
import sys


def _open_streams() -> None:
    """Point closed standard streams (`>&-`) at nothing.

    Else they are None, and the first files that we open take their descriptors, and what is printed there.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest descriptor that is free: this one
            setattr(sys, name, os.fdopen(descriptor, mode))


def _guarded() -> int:
    """The exit code; an error of the pipeline's own must not end as 1, which is a mismatch.

    Until a run watches for signals itself, and after it, SIGTERM is what Ctrl-C is.
    """
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        _open_streams()
        # Imported here, since it imports every kernel, and one that is being written need not be Python yet.
        from pipeline.commands.cli import main

        code = main(sys.argv[1:])
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # we are ending: the impatient must not cut that short
        sys.stderr.write("interrupted\n")
        return _interrupted()
    except BrokenPipeError:
        # Whoever reads us has enough (`| head`); what is left in the buffer has nowhere to go either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _interrupted()
    except OSError as error:
        from pipeline.run.states import INTERNAL_ERROR

        sys.stderr.write(
            f"cannot go on: {error}\n"
        )  # the host's fault, as where it is full: no place of ours
        return INTERNAL_ERROR
    except Exception:
        import traceback

        from pipeline.run.states import INTERNAL_ERROR

        traceback.print_exc()
        return INTERNAL_ERROR


def _interrupted() -> int:
    from pipeline.ground.jobs import OUTCOMES, State

    return OUTCOMES[State.INTERRUPTED].exit_code


if __name__ == "__main__":
    sys.exit(_guarded())
