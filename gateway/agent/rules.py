"""Instruction rules that come up during a turn: those for the project's files that the model reads."""

from pathlib import Path

from gateway.db.models import RULE_PREFIX
from memory.instructions.layers import Instructions
from memory.instructions.telling import render_touched
from memory.prompt import fenced
from memory.prompt_sections import REMINDER_TAG
from memory.scope import Scope


class TouchedRules:
    """Tells each rule once per session. `shown` is what the session was shown before, `new` what it is shown now."""

    def __init__(self, instructions: Instructions, scope: Scope, shown: frozenset[str]) -> None:
        self._instructions = instructions
        self._scope = scope
        self._told = {Path(name.removeprefix(RULE_PREFIX)) for name in shown if name.startswith(RULE_PREFIX)}
        self._loaded = False
        self.new: list[str] = []

    async def __call__(self, path: Path) -> str:
        """Return what is to be said after `path` was read; empty outside the project's folder."""
        root = self._scope.project_root
        if root is None or not path.is_relative_to(root):
            return ""
        if not self._loaded:  # most turns read no file of the project, and need not look
            self._told |= {file.path for file in (await self._instructions.load(self._scope)).files}
            self._loaded = True
        found = await self._instructions.rules_for(self._scope, path, frozenset(self._told))
        self._told |= {file.path for file in found}
        self.new += [f"{RULE_PREFIX}{file.path}" for file in found]
        text = render_touched(found, shared=self._scope.shared)
        return fenced(text, REMINDER_TAG) if text else ""
