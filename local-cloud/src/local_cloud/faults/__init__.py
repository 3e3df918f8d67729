"""A proxy in front of a service that makes it slow and unreliable, as a service far away is."""
