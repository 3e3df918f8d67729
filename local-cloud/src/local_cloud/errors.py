"""What goes wrong when a service cannot be given."""


class LocalCloudError(Exception):
    """The local cloud cannot do what was asked; the message is one line, perhaps followed by a server's own words."""
