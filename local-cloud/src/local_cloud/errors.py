"""The error of services that cannot be provided."""


class LocalCloudError(Exception):
    """The local cloud cannot do what was asked. The message is one line, perhaps followed by a server's own output."""
