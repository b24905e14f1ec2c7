"""Commands, exit codes and terminal views."""
