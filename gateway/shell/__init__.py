"""The shell's commands, a module for each: loaded when the command is given, and not before."""
