"""What the user can mend: an error whose text is one line that says what, where and what to do."""


class FlywheelError(Exception):
    """A request that cannot be served. The command line prints its text and exits 1; it is never a traceback."""


class UsageError(FlywheelError):
    """What was asked makes no sense, whatever the data: the command line exits 2, with nothing read or written."""
