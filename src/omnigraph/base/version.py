"""Which version this is: of the package, of the command, and of what a server speaks."""

VERSION = "0.3.0"
