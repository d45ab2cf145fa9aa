"""Every command line. stdout is data, stderr is people."""


class Stopped(BaseException):
    """SIGTERM: unwinds like Ctrl-C, so that leases are freed and nothing is half done."""
