"""The page that a platform shows to one person alone: what is remembered about them, and how to change it."""

from adapters.base import Account
from gateway.access import Access
from gateway.scopes import Scopes
from memory.counts import counted
from memory.freshness import age_days, age_words
from memory.ports import Clock
from memory.scan import Scans
from memory.scope import Scope

_LISTED = 30
_STRANGER = "Write to me in a direct message, and I tell you how we get to know each other."
_HOW = (
    "In our direct chat `/memory NAME` shows a note, `/forget NAME or WORDS` forgets it for good, `/why` says which "
    "notes shaped my last answer, and `/help` what else I can do."
)


class HomePage:
    """Makes the page. It holds what is in the person's own memory, and nothing of any shared chat."""

    def __init__(self, access: Access, scopes: Scopes, scanner: Scans, clock: Clock) -> None:
        self._access, self._scopes, self._scanner, self._clock = access, scopes, scanner, clock

    async def __call__(self, account: Account) -> str:
        """Return the page of whoever this account is, as Markdown."""
        principal = await self._access.person(account)
        if principal is None:
            return _STRANGER
        parts = [await self._part(scope) for scope in await self._scopes.of_principal(principal) if scope.enabled]
        known = "\n\n".join(filter(None, parts)) or "Nothing yet."
        return f"# What I remember about you\n\nOnly you see this page.\n\n{known}\n\n{_HOW}"

    async def _part(self, scope: Scope) -> str:
        headers = [each for each in await self._scanner.scan(scope) if not each.name.startswith("team/")]
        if not headers:
            return ""
        now = self._clock().timestamp()
        lines = [
            f"- `{header.name}` {header.description or ''} ({age_words(age_days(header.mtime, now))})"
            for header in headers[:_LISTED]
        ]
        more = [f"- … and {len(headers) - _LISTED} more"] if len(headers) > _LISTED else []
        where = f"In the project {scope.project}" if scope.project else "From our chats"
        return "\n".join([f"**{where}: {counted(len(headers), 'note')}**", "", *lines, *more])
