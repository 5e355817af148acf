"""When a dataset may go on, where others are made beside it."""


class Turn:
    """Of a dataset that is made by itself, which always may."""

    def decided(self) -> None:
        """All is decided that its rows come from."""

    def wait(self) -> None:
        """Until it may be seen; its files are written by then."""


ALONE = Turn()
