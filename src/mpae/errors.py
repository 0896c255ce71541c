"""The one exception for what a user can mend."""


class MPAEError(Exception):
    """A mistake that the user can mend: what was found, what was expected, what to do.

    The command line prints it as one sentence and exits with code 2; anything else is a bug and keeps
    its traceback.
    """
