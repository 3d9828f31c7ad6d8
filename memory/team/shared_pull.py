"""One answer of a server for all the copies on a gateway that would ask it the same."""

from collections import defaultdict
from collections.abc import Awaitable, Callable

import anyio

from memory.team.copy import Copy
from memory.team.errors import SyncFailed
from memory.team.remote import Fetched

_Question = tuple[str, str, frozenset[tuple[str, str]]]


class SharedPull:
    """What servers said in one round over the copies of their repos; each question is asked once.

    Two copies ask the same if they know the same of the server: by its tag, and by the hash of each of its texts. What
    else there is of them, what they agreed on, what lies on disk and what was forgotten, stays each one's own. One
    that has written or fetched something since another has asked knows more than that one did, and asks for itself: no
    answer is taken that is older than what a copy knows. That the server could not be asked is an answer too.
    """

    def __init__(self) -> None:
        self._answers: dict[_Question, Fetched | SyncFailed] = {}
        self._turns: defaultdict[_Question, anyio.Lock] = defaultdict(anyio.Lock)

    async def of(self, copy: Copy, ask: Callable[[Copy], Awaitable[Fetched]]) -> Fetched:
        """Return what the server says to this copy; raises `SyncFailed`, as `ask` does."""
        tag = copy.tag
        if tag is None:
            return await ask(copy)
        question = copy.repo, tag, frozenset(copy.state.server.items())
        async with self._turns[question]:
            answer = self._answers.get(question)
            if answer is None:
                answer = self._answers[question] = await _answered(copy, ask)
        if isinstance(answer, SyncFailed):
            raise answer
        return answer


async def _answered(copy: Copy, ask: Callable[[Copy], Awaitable[Fetched]]) -> Fetched | SyncFailed:
    try:
        return await ask(copy)
    except SyncFailed as failure:
        return failure
